//! Runs models under loom, which explores every interleaving of the threads of a small program.
//!
//! `preemptions` bounds how often an execution may interrupt a thread that could have continued.
//! `None` explores every execution.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use loom::model::Builder;

use super::planted::{Bug, plant};

/// Runs every execution of a model, and panics if one fails.
#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
pub(crate) fn explore(preemptions: Option<usize>, name: &str, model: fn()) {
    let (executions, result) = run(preemptions, model);
    if let Err(panic) = result {
        resume_unwind(panic);
    }
    let bound = preemptions.map(|bound| format!(" with at most {bound} preemptions"));
    println!("{name}: {executions} executions, all there are{}", bound.unwrap_or_default());
}

/// Runs a model with a planted bug until an execution panics with a text that contains `promise`.
#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
pub(crate) fn must_fail(preemptions: Option<usize>, bug: Bug, promise: &str, model: fn()) {
    // Loom runs every thread of a model on this one.
    plant(Some(bug));
    let (executions, result) = run(preemptions, model);
    plant(None);
    let panic = result.expect_err("the planted bug was not found");
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    println!("{bug:?}: found in execution {executions}: {text}");
    assert!(text.contains(promise), "not what was planted");
}

/// Runs a model until an execution panics, and returns the number of executions.
fn run(preemptions: Option<usize>, model: fn()) -> (usize, thread::Result<()>) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions.or(builder.preemption_bound);
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&executions);
    let check = || {
        builder.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            model();
        });
    };
    let result = catch_unwind(AssertUnwindSafe(check));
    (executions.load(Ordering::Relaxed), result)
}
