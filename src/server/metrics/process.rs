//! Metrics of the process.

use prometheus::{
    core::{Collector, Desc},
    process_collector::ProcessCollector,
    proto::{Counter, MetricFamily},
};
use rustix::time::{ClockId, clock_gettime};

const CPU_SECONDS: &str = "process_cpu_seconds_total";

/// The library's metrics, with a CPU time that is exact: its own counts whole seconds.
pub(super) struct ProcessMetrics(ProcessCollector);

impl ProcessMetrics {
    pub(super) fn new() -> Self {
        Self(ProcessCollector::for_self())
    }
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.0.collect();
        for family in families.iter_mut().filter(|family| family.name() == CPU_SECONDS) {
            for metric in family.mut_metric() {
                let mut counter = Counter::default();
                counter.set_value(cpu_seconds());
                metric.set_counter(counter);
            }
        }
        families
    }
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
    use super::*;

    #[test]
    fn cpu_time_has_fractions_and_rises() {
        let metrics = ProcessMetrics::new();
        let read = || {
            let families = metrics.collect();
            let family = families.iter().find(|family| family.name() == CPU_SECONDS);
            family.expect("there").get_metric()[0].get_counter().get_value()
        };
        let before = read();
        let mut after = read();
        // Each look takes some microseconds.
        for _ in 0..1_000 {
            after = read();
        }
        assert!(after > before && after - before < 60.0, "{before} {after}");
        assert!(after.fract() > 0.0, "{after}");
    }
}
