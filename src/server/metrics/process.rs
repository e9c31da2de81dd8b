//! Metrics of the process, under the names that all client libraries of Prometheus use.

use std::fs;

use prometheus::{
    Counter, IntGauge,
    core::{Collector, Desc},
    proto::{self, MetricFamily},
};
use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

/// The CPU time of this process, and the figures that Linux has of it in `/proc`. A figure that
/// cannot be read keeps its last value, at first 0. The start time is read once: Linux counts it
/// from the boot, and moves the time of the boot when the clock is set.
pub(super) struct ProcessMetrics {
    cpu_seconds: Counter,
    gauges: Gauges,
}

struct Gauges {
    open_fds: IntGauge,
    max_fds: IntGauge,
    virtual_memory: IntGauge,
    resident_memory: IntGauge,
    start_time: IntGauge,
    threads: IntGauge,
}

impl ProcessMetrics {
    pub(super) fn new() -> Self {
        let help = "Total user and system CPU time spent in seconds.";
        Self {
            cpu_seconds: Counter::new("process_cpu_seconds_total", help).expect("a valid name"),
            gauges: Gauges::new(),
        }
    }
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = self.gauges.all().into_iter().flat_map(IntGauge::desc);
        self.cpu_seconds.desc().into_iter().chain(gauges).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.cpu_seconds.collect();
        // Set, not increased: two concurrent scrapes would add the same time twice.
        for metric in families.iter_mut().flat_map(MetricFamily::mut_metric) {
            let mut counter = proto::Counter::default();
            counter.set_value(cpu_seconds());
            metric.set_counter(counter);
        }
        self.gauges.read();
        families.extend(self.gauges.all().into_iter().flat_map(IntGauge::collect));
        families
    }
}

impl Gauges {
    fn new() -> Self {
        let gauge = |name, help| IntGauge::new(name, help).expect("a valid name");
        Self {
            open_fds: gauge("process_open_fds", "Number of open file descriptors."),
            max_fds: gauge("process_max_fds", "Maximum number of open file descriptors."),
            virtual_memory: gauge("process_virtual_memory_bytes", "Virtual memory size in bytes."),
            resident_memory: gauge(
                "process_resident_memory_bytes",
                "Resident memory size in bytes.",
            ),
            start_time: gauge(
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
            ),
            threads: gauge("process_threads", "Number of OS threads in the process."),
        }
    }

    fn all(&self) -> [&IntGauge; 6] {
        let Self { open_fds, max_fds, virtual_memory, resident_memory, start_time, threads } = self;
        [open_fds, max_fds, virtual_memory, resident_memory, start_time, threads]
    }

    fn read(&self) {
        set(&self.open_fds, open_fds());
        set(&self.max_fds, getrlimit(Resource::Nofile).current);
        if let Some(stat) = fs::read("/proc/self/stat").ok().as_deref().and_then(Stat::parse) {
            let page_size = u64::try_from(page_size()).unwrap_or(0);
            set(&self.virtual_memory, Some(stat.virtual_bytes));
            set(&self.resident_memory, stat.resident_pages.checked_mul(page_size));
            set(&self.threads, Some(stat.threads));
            if self.start_time.get() == 0 {
                let since_boot = stat.started_at_tick.checked_div(clock_ticks_per_second());
                let started = since_boot.zip(boot_time()).map(|(seconds, boot)| boot + seconds);
                set(&self.start_time, started);
            }
        }
    }
}

fn set(gauge: &IntGauge, value: Option<u64>) {
    if let Some(value) = value.and_then(|value| i64::try_from(value).ok()) {
        gauge.set(value);
    }
}

/// Fields of `/proc/<pid>/stat`; proc_pid_stat(5) describes them.
#[derive(Debug, PartialEq)]
struct Stat {
    threads: u64,
    started_at_tick: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &[u8]) -> Option<Self> {
        // The second field, the program's name, may contain spaces and parentheses. Linux cuts it
        // after 15 bytes, even within a character.
        let text = String::from_utf8_lossy(text);
        let (_, from_third) = text.rsplit_once(')')?;
        let fields: Vec<&str> = from_third.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse().ok();
        Some(Self {
            threads: field(20)?,
            started_at_tick: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// Counts the open files of this process. Since 6.2, Linux gives their number as the size of the
/// folder; before, the size is 0, and the entries are counted.
fn open_fds() -> Option<u64> {
    const FOLDER: &str = "/proc/self/fd";
    match fs::metadata(FOLDER).ok()?.len() {
        0 => u64::try_from(fs::read_dir(FOLDER).ok()?.count()).ok(),
        number => Some(number),
    }
}

/// Returns when Linux was booted, in seconds since 1970.
fn boot_time() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "exact for a hundred years; this clock tells no time"
)]
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn cpu_time_has_fractions_and_rises() {
        let metrics = ProcessMetrics::new();
        let read = || {
            let families = metrics.collect();
            let is_cpu = |family: &&MetricFamily| family.name() == "process_cpu_seconds_total";
            let family = families.iter().find(is_cpu);
            family.expect("there").get_metric()[0].get_counter().get_value()
        };
        let before = read();
        let mut after = read();
        // Each call uses some microseconds of CPU time.
        for _ in 0..1_000 {
            after = read();
        }
        assert!(after > before && after - before < 60.0, "{before} {after}");
        assert!(after.fract() > 0.0, "{after}");
    }

    #[test]
    fn name_with_parentheses_and_spaces_hides_no_field() {
        let rest = b") S 1 7 7 0 -1 4 9 0 0 0 14 15 0 0 20 0 5 0 9876 1024000 321 184";
        let stat = Stat {
            threads: 5,
            started_at_tick: 9876,
            virtual_bytes: 1_024_000,
            resident_pages: 321,
        };
        for name in [&b"7 (a) b (c"[..], b"7 (raindrop-\xe5\x8f\xb7\xe5"] {
            assert_eq!(Stat::parse(&[name, rest].concat()).as_ref(), Some(&stat), "{name:?}");
        }
        assert_eq!(Stat::parse(b"7 (cut) S 1 7 7"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn every_gauge_of_a_living_process_has_a_plausible_value() {
        let _open = fs::File::open("/proc/self/stat").expect("Linux has it");
        let gauges = Gauges::new();
        gauges.read();
        let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
        let kib = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.trim_end_matches("kB").trim().parse::<i64>().expect("a number") * 1024
        };
        let near = |value: i64, expected: i64| value > expected / 2 && value < expected * 2;
        assert!(
            near(gauges.resident_memory.get(), kib("VmRSS:")),
            "{}",
            gauges.resident_memory.get()
        );
        assert!(
            near(gauges.virtual_memory.get(), kib("VmSize:")),
            "{}",
            gauges.virtual_memory.get()
        );
        // Standard input, output and error, and the file above.
        assert!(gauges.open_fds.get() >= 4, "{}", gauges.open_fds.get());
        assert!(gauges.max_fds.get() >= gauges.open_fds.get(), "{}", gauges.max_fds.get());
        assert!(gauges.threads.get() >= 1, "{}", gauges.threads.get());
        // The creation time of a new file is the present time.
        let file = tempfile::tempfile().expect("a file").metadata().expect("its times");
        let now = file.modified().expect("a time").duration_since(UNIX_EPOCH).expect("after 1970");
        let started = u64::try_from(gauges.start_time.get()).expect("after 1970");
        assert!(started.abs_diff(now.as_secs()) < 3600, "{started} {now:?}");
    }

    #[test]
    fn start_time_stays_when_the_clock_is_set() {
        let gauges = Gauges::new();
        // As if the clock had been set since then.
        gauges.start_time.set(1_000);
        gauges.read();
        assert_eq!(gauges.start_time.get(), 1_000);
    }
}
