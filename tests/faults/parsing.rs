//! Tests `raindrop parse` with several IDs.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use crate::service::run;

/// Returns the command in a folder, with its input and output in the hands of the test.
fn parse(folder: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raindrop"));
    command.arg("parse").args(arguments).env_clear().current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command on an input, and returns its exit code, the IDs that it printed, and its
/// errors.
fn read(arguments: &[&str], input: &[u8]) -> (Option<i32>, Vec<String>, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut child = parse(folder.path(), arguments).spawn().expect("it runs");
    child.stdin.take().expect("piped").write_all(input).expect("written");
    let output = child.wait_with_output().expect("it ends");
    let ids = String::from_utf8(output.stdout).expect("UTF-8");
    (output.status.code(), ids_of(&ids), String::from_utf8(output.stderr).expect("UTF-8"))
}

fn ids_of(out: &str) -> Vec<String> {
    let id = |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["id"].clone();
    out.lines().map(|line| id(line).as_str().expect("a text").to_owned()).collect()
}

#[test]
fn each_line_of_standard_input_is_parsed() {
    for arguments in [&[][..], &["-"]] {
        let (code, ids, err) = read(arguments, b"1\n\n 249679838552547328\r\n3");
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert_eq!(ids, ["1", "249679838552547328", "3"]);
    }
    assert_eq!(read(&[], b""), (Some(0), vec![], String::new()));
    let (code, ids, err) = read(&["-"], b"1\n\nx\n\xff\n5\n99999999999999999999\n7");
    assert_eq!((code, ids), (Some(2), vec!["1".into(), "5".into(), "7".into()]));
    for said in ["line 3: ID \"x\": position 0", "line 4: ID ", "line 6: ID ", "3 of 6 IDs"] {
        assert!(err.contains(said), "{said:?} is missing in\n{err}");
    }
    let (_, ids, err) = read(&["--layout", "twitter", "--encoding", "hex"], b"7f\n");
    assert_eq!((ids, err), (vec!["127".into()], String::new()));
}

#[test]
fn several_arguments_are_parsed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (code, out, err) = run(&["parse", "1", "2", "3"], &[], folder.path());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(ids_of(&out), ["1", "2", "3"]);
    let (code, out, err) = run(&["parse", "1", "x", "-", "3"], &[], folder.path());
    assert_eq!((code, ids_of(&out)), (Some(2), vec!["1".into(), "3".into()]));
    for said in ["ID \"x\": ", "ID \"-\": ", "2 of 4 IDs could not be parsed"] {
        assert!(err.contains(said), "{said:?} is missing in\n{err}");
    }
    // The configuration is wrong for all IDs.
    let wrong = [("RAINDROP__LAYOUT__WORKER_BITS", "2")];
    assert_eq!(run(&["parse", "1", "2"], &wrong, folder.path()).0, Some(2));
}

#[test]
fn a_line_is_answered_before_the_next_is_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut child = parse(folder.path(), &[]).spawn().expect("it runs");
    let mut input = child.stdin.take().expect("piped");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    for id in ["1", "2"] {
        writeln!(input, "{id}").expect("written");
        let mut line = String::new();
        output.read_line(&mut line).expect("answered");
        assert_eq!(ids_of(&line), [id]);
    }
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn parse_succeeds_when_its_output_is_closed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut child = parse(folder.path(), &[]).spawn().expect("it runs");
    let mut input = child.stdin.take().expect("piped");
    drop(child.stdout.take());
    // The reader closes the pipe, however much is still to write.
    while input.write_all(b"1\n").is_ok() {}
    assert!(child.wait().expect("it ends").success());
}
