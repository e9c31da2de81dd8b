//! The process around the service: its build, clock and memory limit (below), its log and the level
//! of that, its signals, its traces, and the files that it reads and follows.

pub(crate) mod file_watch;
pub(crate) mod log_level;
mod log_writer;
pub(crate) mod reading;
pub mod service_manager;
pub mod shutdown;
pub mod telemetry;
#[cfg(feature = "otel")]
pub(crate) mod traces;

use std::{fs, path::Path, time::Duration};

use serde::Serialize;
use utoipa::ToSchema;

use crate::core::clock::{Clock, Recent, SystemClock};

/// This build, as `/version`, `raindrop version --json` and `raindrop_build_info` report it.
pub(crate) const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: match option_env!("RAINDROP_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    },
};

/// A build of this program.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Build {
    /// The version.
    pub(crate) version: &'static str,
    /// The commit, `unknown` if the build was not told it.
    pub(crate) commit: &'static str,
}

/// The machine's clocks, with the last reading of the wall clock.
///
/// The HTTP handler of a claim calls [`Clock::refresh`] first. The claim then uses that reading.
#[derive(Debug)]
pub(crate) struct RememberingClock {
    system: SystemClock,
    recent: Recent,
}

impl RememberingClock {
    /// Reads the clock for the first time.
    pub(crate) fn start() -> Self {
        let system = SystemClock::default();
        Self { recent: Recent::new(system.now_ms()), system }
    }
}

impl Clock for RememberingClock {
    fn now_ms(&self) -> i64 {
        self.system.now_ms()
    }

    fn steady(&self) -> Duration {
        self.system.steady()
    }

    fn recent(&self) -> Option<Recent> {
        Some(self.recent.clone())
    }

    fn refresh(&self) {
        self.recent.renew(|| self.system.now_ms());
    }
}

/// The mount points of control groups and the files of their limits, for both versions.
const MOUNTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

/// Returns the memory limit of this process in bytes, if its control group has one.
pub(crate) fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = MOUNTS.into_iter().filter_map(|(mount, file)| {
        let is_v2 = file == "memory.max";
        smallest_limit(Path::new(mount), group_of(&groups, is_v2)?, file)
    });
    limits.min()
}

/// Returns the path of the process's group, from lines such as `0::/a` and `4:memory:/a`.
fn group_of(groups: &str, is_v2: bool) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_memory = controllers.split(',').any(|controller| controller == "memory");
        (if is_v2 { controllers.is_empty() } else { is_memory }).then_some(path)
    })
}

/// Returns the smallest limit of a group and its ancestors. In a container, the root of the mount
/// is the container's group, whatever the path is, so the root counts, too.
fn smallest_limit(mount: &Path, group: &str, file: &str) -> Option<u64> {
    let group = mount.join(group.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|group| group.starts_with(mount));
    // `max`, and version 1's largest number, mean that there is no limit.
    let limit = |group: &Path| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
    groups.filter_map(limit).filter(|limit| *limit < 1 << 60).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reading_is_remembered() {
        let clock = RememberingClock::start();
        let recent = clock.recent().expect("it keeps one");
        recent.set(0);
        assert_eq!(clock.recent.ms(), 0);
        clock.refresh();
        let refreshed = recent.ms();
        assert!(refreshed > 0 && clock.now_ms() >= refreshed, "{refreshed}");
    }

    #[test]
    fn the_group_is_found_in_both_versions() {
        let both = "9:name=systemd:/s\n4:memory:/pod/one\n3:cpu,memory2:/x\n0::/unified\n";
        assert_eq!(group_of(both, false), Some("/pod/one"));
        assert_eq!(group_of(both, true), Some("/unified"));
        assert_eq!(group_of("0::/\n", false), None);
    }

    #[test]
    fn the_smallest_limit_of_the_groups_around_counts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inner = folder.path().join("pod/one");
        fs::create_dir_all(&inner).expect("created");
        let limit = || smallest_limit(folder.path(), "/pod/one", "memory.max");
        assert_eq!(limit(), None);
        fs::write(inner.join("memory.max"), "max\n").expect("written");
        assert_eq!(limit(), None);
        fs::write(folder.path().join("pod/memory.max"), "536870912\n").expect("written");
        assert_eq!(limit(), Some(512 << 20));
        fs::write(inner.join("memory.max"), "1048576\n").expect("written");
        assert_eq!(limit(), Some(1 << 20));
        // A group that the mount does not show.
        assert_eq!(smallest_limit(folder.path(), "/elsewhere/x", "memory.max"), None);
        fs::write(folder.path().join("memory.max"), "4096").expect("written");
        assert_eq!(smallest_limit(folder.path(), "/elsewhere/x", "memory.max"), Some(4096));
    }
}
