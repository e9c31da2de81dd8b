//! Runs programs of `examples/`, as cargo built them beside the tests.

use std::{env, process::Command};

/// Runs an example to its end and returns the IDs that it printed, one in each line.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Vec<u64> {
    let test = env::current_exe().expect("the path of this test");
    let built = test.ancestors().nth(2).expect("the folder of the profile");
    let program = built.join("examples").join(name).with_extension(env::consts::EXE_EXTENSION);
    assert!(
        program.exists(),
        "{} is not built: run `cargo build --examples`, or `cargo test` without --test",
        program.display()
    );
    let output = Command::new(program).args(arguments).output().expect("it starts");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{problem}", output.status);
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    printed.lines().map(|line| line.parse().expect("a decimal ID")).collect()
}

/// Checks that there are this many IDs, each above the one before it and so distinct.
pub(crate) fn assert_ascending(ids: &[u64], count: usize) {
    assert_eq!(ids.len(), count);
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
}
