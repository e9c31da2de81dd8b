//! Runs models under loom: small programs whose every interleaving is explored.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use loom::model::Builder;

use super::planted::{Bug, plant};

/// Runs every execution of a model.
pub(crate) fn explore(name: &str, model: fn()) {
    explore_by(&Builder::new(), name, model);
}

/// Runs every execution of a model in which at most so many threads are interrupted at a point
/// where they could have gone on.
pub(crate) fn explore_with_preemptions(preemptions: usize, name: &str, model: fn()) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    explore_by(&builder, name, model);
}

#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
fn explore_by(builder: &Builder, name: &str, model: fn()) {
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let bound = builder.preemption_bound.map(|bound| format!(" with at most {bound} preemptions"));
    let executions = executions.load(Ordering::Relaxed);
    println!("{name}: {executions} executions, all there are{}", bound.unwrap_or_default());
}

/// Runs a model with a planted bug until an execution breaks this promise.
pub(crate) fn must_fail(bug: Bug, promise: &str, model: fn()) {
    must_fail_by(&Builder::new(), bug, promise, model);
}

/// The same among executions with few preemptions.
pub(crate) fn must_fail_with_preemptions(preemptions: usize, bug: Bug, promise: &str, model: fn()) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    must_fail_by(&builder, bug, promise, model);
}

#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
fn must_fail_by(builder: &Builder, bug: Bug, promise: &str, model: fn()) {
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&executions);
    let check = || {
        builder.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            model();
        });
    };
    // Loom runs every thread of a model on this one.
    plant(Some(bug));
    let found = catch_unwind(AssertUnwindSafe(check));
    plant(None);
    let found = found.expect_err("the planted bug was not found");
    let text = found.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| found.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    let executions = executions.load(Ordering::Relaxed);
    println!("{bug:?}: found in execution {executions}: {text}");
    assert!(text.contains(promise), "not what was planted");
}
