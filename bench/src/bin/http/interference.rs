//! How much the rest of the machine interfered.

use std::{fs, time::Duration};

use rustix::process::setpriority_process;

use super::{
    load::own_time,
    process::{Cores, Process},
    tools::{Result, warn},
};

/// Has what is measured go before other work of the machine, as far as this user may say so.
#[derive(Debug)]
pub(crate) struct Priority {
    /// What the session's group had before, where the kernel groups processes by session.
    group: Option<String>,
}

/// The lowest is the first.
const FIRST: i32 = -20;
const GROUP: &str = "/proc/self/autogroup";

impl Priority {
    pub(crate) fn raise() -> Self {
        let raised = setpriority_process(None, FIRST);
        let group = fs::read_to_string(GROUP).ok();
        let group = group.and_then(|line| Some(line.rsplit_once(' ')?.1.trim().to_owned()));
        let group = group.filter(|_| fs::write(GROUP, FIRST.to_string()).is_ok());
        if raised.is_err() {
            warn("not root: other work of this machine interferes more");
        }
        Self { group }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(group) = &self.group {
            // The session ends some day, and its group with it.
            let _ = fs::write(GROUP, group);
        }
    }
}

/// Time that the two cores worked, and that the servers and the load generator took of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worked {
    all: Duration,
    ours: Duration,
}

impl Worked {
    /// So far.
    pub(crate) fn so_far(cores: Cores, servers: &[&Process]) -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let of = |core: usize| {
            let name = format!("cpu{core} ");
            let fields = stat.lines().find_map(|line| line.strip_prefix(&name));
            fields.ok_or_else(|| format!("/proc/stat does not tell of core {core}"))
        };
        let ticks = worked(of(cores.server)?) + worked(of(cores.generator)?);
        let mut ours = own_time();
        for server in servers {
            ours += server.cpu_time()?;
        }
        // These ticks are hundredths of a second on every Linux.
        Ok(Self { all: Duration::from_millis(ticks * 10), ours })
    }

    /// What others took since then, in words.
    pub(crate) fn interference(self, before: Self) -> String {
        let all = self.all.saturating_sub(before.all);
        let others = all.saturating_sub(self.ours.saturating_sub(before.ours));
        let part = 100.0 * others.as_secs_f64() / all.as_secs_f64().max(0.01);
        format!("{part:.0} % of the work of the two cores was not ours")
    }
}

/// The ticks that a core was neither idle nor waiting for a disk.
fn worked(fields: &str) -> u64 {
    let fields: Vec<u64> =
        fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is contained in these.
    fields.iter().take(8).enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, t)| t).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cores_do_not_work() {
        assert_eq!(worked("1 2 3 1000 2000 4 5 6 7 8"), 21);
    }
}
