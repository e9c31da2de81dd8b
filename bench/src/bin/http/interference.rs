//! The interference of other work on the machine.

use std::{fs, time::Duration};

use rustix::process::setpriority_process;

use super::{
    load::own_cpu_time,
    process::{Cores, Process},
    support::{Result, warn},
};

/// Gives this process and its servers priority over other work, as far as this user may.
#[derive(Debug)]
pub(crate) struct Priority {
    /// The former value of the session's group, if the kernel groups processes by session.
    group: Option<String>,
}

/// The lowest value has the highest priority.
const HIGHEST: i32 = -20;
const GROUP: &str = "/proc/self/autogroup";

impl Priority {
    pub(crate) fn raise() -> Self {
        let raised = setpriority_process(None, HIGHEST);
        let group = fs::read_to_string(GROUP).ok();
        let group = group.and_then(|line| Some(line.rsplit_once(' ')?.1.trim().to_owned()));
        let group = group.filter(|_| fs::write(GROUP, HIGHEST.to_string()).is_ok());
        if raised.is_err() {
            warn("not root: other work on this machine interferes more");
        }
        Self { group }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(group) = &self.group {
            // If this fails, the group keeps its priority until the session ends.
            let _ = fs::write(GROUP, group);
        }
    }
}

/// The busy time of the two cores, and the share of the servers and the load generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BusyTime {
    all: Duration,
    ours: Duration,
}

impl BusyTime {
    pub(crate) fn so_far(cores: Cores, servers: &[&Process]) -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let of = |core: usize| {
            let name = format!("cpu{core} ");
            let fields = stat.lines().find_map(|line| line.strip_prefix(&name));
            fields.ok_or_else(|| format!("/proc/stat lacks core {core}"))
        };
        let ticks = busy_ticks(of(cores.server)?) + busy_ticks(of(cores.generator)?);
        let mut ours = own_cpu_time();
        for server in servers {
            ours += server.cpu_time()?;
        }
        // These ticks are hundredths of a second on every Linux.
        Ok(Self { all: Duration::from_millis(ticks * 10), ours })
    }

    /// Describes the share of other work since `before`.
    pub(crate) fn interference(self, before: Self) -> String {
        let all = self.all.saturating_sub(before.all);
        let others = all.saturating_sub(self.ours.saturating_sub(before.ours));
        let share = 100.0 * others.as_secs_f64() / all.as_secs_f64().max(0.01);
        format!("Other work took {share:.0} % of the two cores' busy time.")
    }
}

/// Returns the ticks in which a core was neither idle nor waiting for a disk.
fn busy_ticks(fields: &str) -> u64 {
    let fields: Vec<u64> =
        fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; the fields after these are included in them.
    fields.iter().take(8).enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, t)| t).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_busy_time() {
        assert_eq!(busy_ticks("1 2 3 1000 2000 4 5 6 7 8"), 21);
    }
}
