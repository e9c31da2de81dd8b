//! Tests commands that ask before they act.

use std::{fs::File, io::Write, path::Path, process::Command};

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::service::{Setup, run};

/// Runs a command on a terminal, and answers its question.
fn run_on_terminal(
    arguments: &[&str],
    settings: &[(&str, &str)],
    folder: &Path,
    answer: &str,
) -> (Option<i32>, String, String) {
    // The terminal must not become the controlling one of this process, which would end with it.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let controller = openpt(flags).expect("a terminal");
    unlockpt(&controller).expect("usable");
    let terminal = ioctl_tiocgptpeer(&controller, flags).expect("opened");
    let mut keyboard = File::from(controller);
    keyboard.write_all(answer.as_bytes()).expect("typed");
    let mut command = Command::new(env!("CARGO_BIN_EXE_raindrop"));
    command.args(arguments).env_clear().envs(settings.iter().copied()).current_dir(folder);
    let output = command.stdin(terminal).output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const LARGER: (&str, &str) = ("RAINDROP__LAYOUT__EPOCH", "2024-01-01T00:00:00Z");

#[test]
fn raise_and_relayout_say_what_they_will_do_and_ask() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    assert_eq!(run(&["id", "order"], &[], folder).0, Some(0));
    let listed = || run(&["workers", "--all"], &[], folder).1;
    let before = listed();
    for (command, settings) in [("raise", &[][..]), ("relayout", &[LARGER])] {
        let (code, out, err) = run(&["workers", command], settings, folder);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.contains("--yes proceeds without asking, --dry-run only says"), "{err}");
        let said = |out: &str| {
            let place = "store sqlite://raindrop.db, namespace default: ";
            let effect = match command {
                "raise" => "begins a new epoch",
                _ => "frees 512 worker ids, of which 0",
            };
            for text in [&format!("{place}{effect}"), "no node gets a new lease"] {
                assert!(out.contains(text), "{text:?} is missing in\n{out}");
            }
        };
        let (code, out, err) = run(&["workers", command, "--dry-run"], settings, folder);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        said(&out);
        for answer in ["n\n", "\n", "yess\n", "\u{4}"] {
            let answered = run_on_terminal(&["workers", command], settings, folder, answer);
            let (code, out, err) = answered;
            assert_eq!(code, Some(1), "{out}{err}");
            said(&out);
            let asked = "Proceed? [y/N] raindrop: not confirmed: nothing was changed\n";
            assert_eq!(err, asked, "{answer:?}");
        }
        assert_eq!(run(&["workers", command, "--yes", "--dry-run"], settings, folder).0, Some(2));
    }
    assert_eq!(listed(), before);

    let (code, out, err) = run_on_terminal(&["workers", "relayout"], &[LARGER], folder, "Yes\n");
    assert!(code == Some(0) && out.contains("the layout was `unit=millisecond"), "{out}{err}");
    let (code, out, err) = run_on_terminal(&["workers", "raise"], &[LARGER], folder, "y\n");
    assert!(code == Some(0) && out.contains("every new lease starts above"), "{out}{err}");
    let listed = run(&["workers"], &[LARGER], folder).1;
    assert!(listed.contains("  not before 20") && !listed.contains("  free"), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_of_a_lease_that_is_live_asks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let setup = Setup::new().folder(folder).set("worker.id", 7).set("lease.renew", "1s");
    let node = setup.start_leased().await;
    let release = ["workers", "release", "7"];
    let (code, out, err) = run(&release, &[], folder);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("workers release: nobody can be asked whether to proceed"), "{err}");
    let said = "store sqlite://raindrop.db, namespace default: frees worker 7, which ";
    let (code, out, err) = run_on_terminal(&release, &[], folder, "n\n");
    assert!(code == Some(1) && out.starts_with(said), "{out}{err}");
    assert_eq!(err, "Proceed? [y/N] raindrop: not confirmed: nothing was changed\n");
    let dry = run(&[&release[..], &["--dry-run"]].concat(), &[], folder);
    assert!(dry.0 == Some(0) && dry.1.starts_with(said), "{dry:?}");
    assert!(run(&["workers"], &[], folder).1.contains(" 1 held"), "nothing was changed");

    let (code, out, err) = run_on_terminal(&release, &[], folder, "y\n");
    assert!(code == Some(0) && out.contains("worker 7 is free. It was held by "), "{out}{err}");
    node.logged("lease lost: an operator or another process released the row").await;
    node.stop().await;
    // The command asks nothing about a lease that has ended.
    let (code, out, err) = run(&release, &[], folder);
    assert_eq!((code, out.as_str()), (Some(0), "worker 7 was free already\n"), "{err}");
}

#[test]
fn a_question_creates_no_tables() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (code, out, err) = run(&["workers", "raise", "--dry-run"], &[], folder.path());
    assert!(code == Some(0) && out.contains("has not been used yet"), "{out}{err}");
    let (code, _, err) = run(&["workers", "relayout", "--dry-run"], &[], folder.path());
    assert!(code == Some(2) && err.contains("no layout record"), "{err}");
    let counting = [("RAINDROP__MODE", "segment")];
    for (arguments, settings) in [
        (&["workers", "release", "1", "--dry-run"][..], &[][..]),
        (&["codes", "retire", "order", "--dry-run"], &counting),
        (&["codes", "set", "order", "--max", "9"], &counting),
        (&["codes", "raise", "--by", "1", "--dry-run"], &counting),
        (&["id", "order"], &counting),
    ] {
        let (code, _, err) = run(arguments, settings, folder.path());
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
    }
    for (arguments, said) in [
        (&["workers"][..], "the store has no worker ids yet"),
        (
            &["workers", "--namespace", "default"],
            "the store has no worker ids of namespace default yet",
        ),
        (&["codes"], "the store has no segment codes: no configured namespace is in segment mode"),
    ] {
        let said = format!("raindrop: {said}\n");
        let listed = run(arguments, &[], folder.path());
        assert_eq!(listed, (Some(0), String::new(), said), "{arguments:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
}

#[test]
fn a_namespace_that_does_not_exist_is_a_usage_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(run(&["id", "order"], &[], folder.path()).0, Some(0));
    let web = [("RAINDROP__NAMESPACES__WEB__LAYOUT__PRESET", "js-safe")];
    for arguments in [
        &["workers", "--namespace", "nope"][..],
        &["workers", "release", "1", "--namespace", "nope"],
    ] {
        let (code, _, err) = run(arguments, &web, folder.path());
        let said = "namespace \"nope\" does not exist; existing namespaces: default, web";
        assert!(code == Some(2) && err.contains(said), "{arguments:?}: {err}");
    }
    assert_eq!(run(&["id", "order", "--namespace", "web"], &web, folder.path()).0, Some(0));
    // The second case has a namespace that only the store still has.
    for settings in [&web[..], &[]] {
        let (code, out, err) = run(&["workers", "--namespace", "web"], settings, folder.path());
        assert_eq!(code, Some(0), "{err}");
        assert!(out.contains("\nweb ") && !out.contains("default"), "{out}");
    }
}
