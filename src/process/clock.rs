//! A clock that remembers its last reading.

use std::time::Duration;

use crate::core::clock::{Clock, Recent, SystemClock};

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
}
