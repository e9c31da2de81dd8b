//! The level of the log, which an operator can change for a time while the service runs.
//!
//! A change always has an end, so that an operator need not undo it: a task then sets the
//! configured level again. A later change replaces an earlier one, with its end. Nothing survives a
//! restart. Which lines a level has is decided in [`directives`]; where lines go, in `telemetry`.
//! Tests: below, and tests/faults/log_level.rs.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::AbortHandle, time::sleep};
use tracing_subscriber::EnvFilter;

use crate::keeper::SPANS;

/// Directives for targets that would only be noise: errors of requests to the Kubernetes API, which
/// the keeper logs with their meaning, and errors of HTTP/2, with which clients could fill the log.
const NOISY_TARGETS: &str = "kube_client::client::builder=off,h2=error";

/// Returns the filter of a level.
///
/// `debug` is for operators: what this node decided and why. Of libraries it has what `info` has,
/// since drivers log every statement at that level. `trace` has everything.
///
/// No level has spans: they are for a collector alone, and without one none is made.
pub(super) fn directives(level: &str) -> EnvFilter {
    let level = if level == "debug" { "info,raindrop=debug" } else { level };
    EnvFilter::new(format!("{level},{SPANS}=off,{NOISY_TARGETS}"))
}

/// Sets the filter of the log.
type Apply = Box<dyn Fn(EnvFilter) + Send + Sync>;

/// Changes the level of the log. Clones change the same log.
#[derive(Clone)]
pub(crate) struct LogLevel(Arc<Shared>);

struct Shared {
    configured: &'static str,
    apply: Apply,
    change: Mutex<Option<Change>>,
}

/// A level in place of the configured one.
struct Change {
    level: &'static str,
    until_ms: i64,
    end: AbortHandle,
}

/// The level of the log at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PresentLevel {
    pub(crate) level: &'static str,
    /// The level that `log.level` sets.
    pub(crate) configured: &'static str,
    /// When the configured level comes back, if there is another; Unix milliseconds.
    pub(crate) until_ms: Option<i64>,
}

impl LogLevel {
    pub(super) fn new(configured: &'static str, apply: Apply) -> Self {
        Self(Arc::new(Shared { configured, apply, change: Mutex::default() }))
    }

    pub(crate) fn present(&self) -> PresentLevel {
        let change = self.0.lock();
        let (level, until_ms) = match &*change {
            Some(change) => (change.level, Some(change.until_ms)),
            None => (self.0.configured, None),
        };
        PresentLevel { level, configured: self.0.configured, until_ms }
    }

    /// Sets a level for this duration, which ends at `until_ms` by the node's clock; replaces an
    /// earlier change. `by` is the operator's name, for the log.
    pub(crate) fn set_for(&self, level: &'static str, duration: Duration, until_ms: i64, by: &str) {
        let mut change = self.0.lock();
        let line = || tracing::info!(level, ?duration, by, "log level changed");
        self.0.apply(level, line);
        let shared = Arc::clone(&self.0);
        let end = tokio::spawn(async move {
            sleep(duration).await;
            shared.end();
        });
        let end = end.abort_handle();
        if let Some(replaced) = change.replace(Change { level, until_ms, end }) {
            replaced.end.abort();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Change>> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the configured level again, unless the change of this task was replaced meanwhile.
    fn end(&self) {
        let mut change = self.lock();
        let own = tokio::task::id();
        if change.take_if(|change| change.end.id() == own).is_some() {
            let level = self.configured;
            self.apply(level, || tracing::info!(level, "log level is the configured one again"));
        }
    }

    /// Sets a level, and writes this line of level `info` before or after that: while a level that
    /// has it is in force.
    fn apply(&self, level: &str, line: impl Fn()) {
        let is_logged = tracing::enabled!(tracing::Level::INFO);
        if is_logged {
            line();
        }
        (self.apply)(directives(level));
        if !is_logged {
            line();
        }
    }
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogLevel").field(&self.present()).finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use tracing_subscriber::{Registry, layer::SubscriberExt as _};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn level() -> (LogLevel, Arc<Mutex<Vec<String>>>) {
        let applied = Arc::new(Mutex::new(Vec::new()));
        let filters = Arc::clone(&applied);
        let apply = move |filter: EnvFilter| {
            filters.lock().expect("no panic").push(filter.to_string());
        };
        (LogLevel::new("info", Box::new(apply)), applied)
    }

    /// Lets the tasks whose time has come run.
    async fn pass(duration: Duration) {
        tokio::task::yield_now().await;
        advance(duration).await;
        tokio::task::yield_now().await;
    }

    #[test]
    fn no_level_has_spans() {
        for level in ["off", "error", "warn", "info", "debug", "trace"] {
            let subscriber = Registry::default().with(directives(level));
            tracing::subscriber::with_default(subscriber, || {
                assert!(tracing::debug_span!(target: SPANS, "request").is_disabled(), "{level}");
            });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn level_comes_back_by_itself() {
        let (log, applied) = level();
        let configured = PresentLevel { level: "info", configured: "info", until_ms: None };
        assert_eq!(log.present(), configured);
        log.set_for("debug", MINUTE, 5, "test");
        let changed = PresentLevel { level: "debug", until_ms: Some(5), ..configured };
        pass(MINUTE / 2).await;
        assert_eq!(log.present(), changed);
        pass(MINUTE / 2).await;
        assert_eq!(log.present(), configured);
        let filters = ["debug", "info"].map(|level| directives(level).to_string());
        assert_eq!(*applied.lock().expect("no panic"), filters);
    }

    #[tokio::test(start_paused = true)]
    async fn later_change_replaces_an_earlier_one_with_its_end() {
        let (log, applied) = level();
        log.set_for("debug", MINUTE, 1, "test");
        log.set_for("trace", MINUTE * 3, 3, "test");
        pass(MINUTE * 2).await;
        assert_eq!((log.present().level, log.present().until_ms), ("trace", Some(3)));
        log.set_for("error", MINUTE / 2, 4, "test");
        pass(MINUTE / 2).await;
        assert_eq!((log.present().level, log.present().until_ms), ("info", None));
        // The end of the change before it does nothing any more.
        pass(MINUTE).await;
        assert_eq!(applied.lock().expect("no panic").len(), 4);
    }

    #[test]
    fn debug_has_the_lines_of_raindrop_and_not_those_of_drivers() {
        let shown = directives("debug").to_string();
        let shown: Vec<&str> = shown.split(',').collect();
        for directive in ["info", "raindrop=debug", "h2=error"] {
            assert!(shown.contains(&directive), "{shown:?}");
        }
        assert!(directives("trace").to_string().split(',').any(|it| it == "trace"));
    }
}
