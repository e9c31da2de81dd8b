//! Log lines, as the source and the documentation have them.

use std::{collections::BTreeSet, fs, path::Path};

/// One process keeps many namespaces, and each has its worker ids.
#[test]
fn log_lines_of_a_namespace_name_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (folder, says, least) in
        [("crates/keeper/src", "", 30), ("crates/store/src", "", 1), ("src", "worker", 3)]
    {
        let checked = check_folder(&root.join(folder), says);
        assert!(checked >= least, "{folder}: only {checked} lines");
    }
}

fn check_folder(folder: &Path, says: &str) -> usize {
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path());
    let check = |path: &Path| match path.is_dir() {
        true => check_folder(path, says),
        false => check_file(path, says),
    };
    paths.map(|path| check(&path)).sum()
}

/// Checks the log lines of a file whose fields say this, and counts them.
fn check_file(path: &Path, says: &str) -> usize {
    // The console's pictures are no text.
    let source = fs::read_to_string(path).unwrap_or_default();
    let macros = ["debug!(", "info!(", "warn!(", "error!("];
    let lines = source.split("tracing::").skip(1);
    let lines = lines.filter(|text| macros.iter().any(|name| text.starts_with(name)));
    let fields = lines.map(|line| line.split('"').next().unwrap_or_default());
    let check = |fields: &str| {
        // All namespaces share a table.
        let is_named = fields.contains("namespace") || fields.contains("table,");
        assert!(is_named, "{}: tracing::{fields}", path.display());
    };
    fields.filter(|fields| fields.contains(says)).map(check).count()
}

/// An operator who reads a line looks it up.
#[test]
fn log_messages_are_those_of_the_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/log-messages.md")).expect("the page");
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split("` |").next());
    let documented: BTreeSet<String> = cells.map(without_values).collect();
    let mut logged = BTreeSet::new();
    for folder in ["crates", "src"] {
        collect_messages(&root.join(folder), &mut logged);
    }
    assert!(logged.len() > 60, "{logged:#?}");
    let is_of = |message: &str, row: &str| {
        row == message || message.strip_suffix('…').is_some_and(|text| row.starts_with(text))
    };
    let has_row = |message: &&String| documented.iter().any(|row| is_of(message, row));
    let missing: Vec<_> = logged.iter().filter(|message| !has_row(message)).collect();
    assert!(missing.is_empty(), "not in docs/log-messages.md: {missing:#?}");
    // The source has these as values: the causes that a reserved block is not used, and a request,
    // whose level is one.
    let values =
        ["the store went back", "a fail-over lost more numbers than the gap skips", "request"];
    let is_logged = |row: &&String| {
        values.contains(&row.as_str()) || logged.iter().any(|message| is_of(message, row))
    };
    let gone: Vec<_> = documented.iter().filter(|row| !is_logged(row)).collect();
    assert!(gone.is_empty(), "only in docs/log-messages.md: {gone:#?}");
}

/// Collects the messages of level info, warn and error of a folder's sources, without their tests.
fn collect_messages(folder: &Path, messages: &mut BTreeSet<String>) {
    for_each_source(folder, &mut |path, source| {
        if path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs") {
            return;
        }
        let production = source.split("\nmod tests {").next().unwrap_or_default();
        for macro_name in ["info!(", "warn!(", "error!("] {
            let begin = format!("tracing::{macro_name}");
            let texts =
                production.split(&begin).skip(1).map(|call| without_values(last_text(call)));
            // A message of nothing but a value is a note of the configuration.
            messages.extend(texts.filter(|text| text.contains(char::is_alphabetic)));
        }
    });
}

/// Returns the last string of a macro's arguments, which is the message.
fn last_text(call: &str) -> &str {
    let (mut depth, mut text, mut at) = (1, "", 0);
    let bytes = call.as_bytes();
    while depth > 0 {
        match bytes[at] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b'"' => {
                let begin = at + 1;
                at = begin;
                while bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                text = &call[begin..at];
            }
            _ => {}
        }
        at += 1;
    }
    text
}

/// Returns a message with `…` for each value, as the page has it.
fn without_values(text: &str) -> String {
    let mut shown = String::new();
    for (index, line) in text.split("\\\n").enumerate() {
        shown.push_str(if index == 0 { line } else { line.trim_start() });
    }
    let mut parts = shown.split('{');
    let mut message = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        message.push('…');
        message.push_str(part.split_once('}').map_or("", |(_, rest)| rest));
    }
    message.replace("\\\"", "\"")
}

/// Operators look up on that page what a line means.
#[test]
fn lines_of_debug_are_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/log.md")).expect("a page");
    let mut found = 0;
    for_each_source(&root.join("crates/keeper/src"), &mut |path, source| {
        for line in source.split("tracing::debug!(").skip(1) {
            // No field has a text of its own, so the message is the first one.
            let message = line.split('"').nth(1).expect("a message");
            assert!(page.contains(&format!("| `{message}` |")), "{}: {message}", path.display());
            found += 1;
        }
    });
    assert!(found > 15, "only {found} lines");
}

/// Calls `check` with each source of a folder.
fn for_each_source(folder: &Path, check: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("one").path();
        if path.is_dir() {
            for_each_source(&path, check);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            check(&path, &fs::read_to_string(&path).expect("a source"));
        }
    }
}
