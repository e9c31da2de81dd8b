//! The command line, and what the documentation says of it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::CommandFactory;

use super::*;
use crate::auth::Permission;

#[test]
fn the_arguments_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn help_lists_a_commands_own_options_apart_from_the_global_ones() {
    let mut cli = Cli::command();
    cli.build();
    let command = cli.find_subcommand_mut("id").expect("a command");
    let help = command.render_help().to_string();
    let (own, global) = help.split_once("Global options:").expect("a heading");
    for (part, flags) in [(own, ["--namespace", "--at"]), (global, ["--config", "--listen"])] {
        assert!(flags.iter().all(|flag| part.contains(flag)), "{help}");
    }
    assert!(!own.contains("--config") && !global.contains("--at"), "{help}");
}

#[test]
fn help_is_wrapped_to_the_terminal() {
    let mut cli = Cli::command().term_width(70);
    cli.build();
    let help = cli.find_subcommand_mut("token").expect("a command").render_long_help().to_string();
    assert!(help.lines().all(|line| line.chars().count() <= 70), "{help}");
}

#[test]
fn serve_is_the_default_command() {
    let cli = Cli::try_parse_from(["raindrop", "--listen", "[::]:80"]).expect("valid");
    assert!(cli.command.is_none() && cli.overrides.listen.as_deref() == Some("[::]:80"));
    let cli = Cli::try_parse_from(["raindrop", "serve", "--store-url", "memory:"]);
    assert_eq!(cli.expect("valid").overrides.store_url.as_deref(), Some("memory:"));
}

#[test]
fn port_is_told_to_be_part_of_listen() {
    for arguments in [&["--port"][..], &["--port", "80"], &["serve", "--port=80"]] {
        let arguments = ["raindrop"].iter().chain(arguments).map(OsString::from);
        let Err(refused) = parse(arguments) else { panic!("--port is unknown") };
        let refused = refused.to_string();
        assert!(refused.contains("unexpected argument '--port' found"), "{refused}");
        assert!(refused.contains("tip: --listen takes the address with the port"), "{refused}");
    }
}

#[test]
fn help_of_token_lists_every_permission_and_those_granted_by_default() {
    let mut cli = Cli::command();
    let help = cli.find_subcommand_mut("token").expect("a command").render_help().to_string();
    let all = Permission::ALL.map(Permission::name).join(", ");
    for said in [format!("[possible values: {all}]"), "; ids and metrics by default".into()] {
        assert!(help.contains(&said), "{said:?} is missing in\n{help}");
    }
}

/// Every document of the project, with its text: those of its folder, and those at any depth of
/// `docs`.
fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("docs")];
    let mut files: Vec<PathBuf> = entries(root).collect();
    while let Some(folder) = folders.pop() {
        let (below, found): (Vec<PathBuf>, Vec<PathBuf>) =
            entries(&folder).partition(|path| path.is_dir());
        folders.extend(below);
        files.extend(found);
    }
    files.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    files
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a text");
            (path, text)
        })
        .collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
}

/// The commands in a document: code that begins with `raindrop`, within a line or as a line.
fn commands(document: &str) -> Vec<&str> {
    let spans = document.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let lines = document.lines().map(str::trim_start);
    let commands = spans.chain(lines).filter(|code| code.starts_with("raindrop "));
    // A line that raindrop-Go logs.
    commands.filter(|code| !code.starts_with("raindrop init.")).collect()
}

/// Returns the first word of a command, or of its synopsis, that the program does not know.
fn unknown_word<'a>(cli: &clap::Command, code: &'a str) -> Option<&'a str> {
    let mut command = cli;
    let mut is_value = false;
    for word in code.split_whitespace().skip(1) {
        let word = word.trim_matches(['[', ']', '`']);
        if word.trim_start_matches('2').starts_with(['>', '#', '|', '&']) {
            return None;
        }
        if std::mem::take(&mut is_value) {
            continue;
        }
        if let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) {
            let name = name.strip_prefix('-').unwrap_or(name);
            let name = name.split('=').next().unwrap_or_default();
            let is_flag = |argument: &&clap::Arg| {
                argument.get_long() == Some(name)
                    || argument.get_short().is_some_and(|short| name == short.to_string())
            };
            match command.get_arguments().find(is_flag) {
                Some(flag) => is_value = flag.get_action().takes_values() && !word.contains('='),
                None => return Some(word),
            }
        } else if let Some(below) = command.find_subcommand(word) {
            command = below;
        } else if command.get_positionals().next().is_none() {
            return Some(word);
        }
    }
    None
}

#[test]
fn commands_in_the_documentation_exist() {
    let mut cli = Cli::command();
    cli.build();
    let mut found = 0;
    for (path, text) in documents() {
        for code in commands(&text) {
            found += 1;
            assert_eq!(unknown_word(&cli, code), None, "{}: {code}", path.display());
        }
    }
    assert!(found > 60, "docs/commands.md has most of them: {found}");
    for (code, word) in [
        ("raindrop workers free 7", "free"),
        ("raindrop id order --number 3", "--number"),
        ("raindrop config --namespace web", "--namespace"),
        ("raindrop config web", "web"),
    ] {
        assert_eq!(unknown_word(&cli, code), Some(word), "{code}");
    }
}

#[test]
fn every_command_is_in_the_tables_of_its_page_and_in_the_changelog() {
    let mut cli = Cli::command();
    cli.build();
    let is_help = |command: &&clap::Command| command.get_name() == "help";
    let text_of = |name: &str| {
        let found = documents().into_iter().find(|(path, _)| path.ends_with(name));
        found.unwrap_or_else(|| panic!("{name} is there")).1
    };
    for name in ["docs/commands.md", "docs/commands.zh-CN.md"] {
        let text = text_of(name);
        for command in cli.get_subcommands().filter(|command| !is_help(command)) {
            let start = format!("`raindrop {}", command.get_name());
            let rows: String = text
                .lines()
                .filter(|line| line.starts_with('|') && line.contains(&start))
                .collect();
            assert!(!rows.is_empty(), "{name}: {start}");
            for below in command.get_subcommands().filter(|below| !is_help(below)) {
                let (whole, short) = (format!("{start} {}", below.get_name()), below.get_name());
                let is_there = rows.contains(&whole) || rows.contains(&format!("`{short} "));
                assert!(is_there, "{name}: {whole}");
            }
        }
    }
    let changelog = text_of("CHANGELOG.md");
    let section = changelog.split("### Command line").nth(1).expect("a section");
    let section = section.split("\n### ").next().expect("its text");
    for command in cli.get_subcommands().filter(|command| !is_help(command)) {
        assert!(section.contains(&format!("`{}`", command.get_name())), "{}", command.get_name());
    }
    // "Each says what it will do and asks first."
    let workers = cli.find_subcommand("workers").expect("a command");
    for command in workers.get_subcommands().filter(|command| !is_help(command)) {
        let has = |flag| command.get_arguments().any(|argument| argument.get_long() == Some(flag));
        assert!(has("yes") && has("dry-run"), "{} asks", command.get_name());
    }
}
