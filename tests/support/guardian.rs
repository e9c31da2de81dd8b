//! Kills processes that would outlive the tests, whichever way those end.

use std::{
    io::Write as _,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
};

/// The standard input of this script closes when the tests end.
const GUARDIAN: &str = r#"
while read -r order process; do
  others=
  for other in $guarded; do
    [ "$other" = "$process" ] || others="$others $other"
  done
  guarded=$others
  [ "$order" = release ] || guarded="$guarded $process"
done
[ -z "$guarded" ] || kill -KILL $guarded
"#;

/// Guards a process of this id until [`release`].
pub(crate) fn guard(process: u32) {
    tell("guard", process);
}

/// Stops guarding a process that has ended.
pub(crate) fn release(process: u32) {
    tell("release", process);
}

fn tell(order: &str, process: u32) {
    static RUNNING: Mutex<Option<Child>> = Mutex::new(None);
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let guardian = running.get_or_insert_with(|| {
        let mut shell = Command::new("sh");
        // A separate process group: an interrupt at the keyboard must not end the guardian before
        // the tests.
        shell.args(["-c", GUARDIAN]).stdin(Stdio::piped()).process_group(0);
        shell.spawn().expect("a shell")
    });
    let orders = guardian.stdin.as_mut().expect("a pipe");
    writeln!(orders, "{order} {process}").expect("the guardian reads");
}
