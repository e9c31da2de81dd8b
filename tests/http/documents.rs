//! The documentation: its configurations can be used, its links lead somewhere, and each document
//! and its Chinese sister have the same structure.

use std::{
    fs,
    path::{Path, PathBuf},
};

use raindrop::config::{Config, Inputs};

/// The text of each block that is fenced as TOML.
fn blocks(document: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in document.lines() {
        match &mut open {
            None if line.trim_start() == "```toml" => open = Some(String::new()),
            None => {}
            Some(_) if line.trim_start() == "```" => blocks.extend(open.take()),
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block without an end");
    blocks
}

fn load(text: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raindrop.toml");
    fs::write(&path, text).expect("written");
    let inputs = Inputs { file: Some(path), ..Inputs::default() };
    Config::load(&inputs).map_err(|error| error.to_string())
}

/// Every document of the project.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = [root.to_owned(), root.join("docs")].into_iter().flat_map(|folder| {
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
    });
    files.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_configuration_in_the_documentation_loads() {
    let mut loaded = 0;
    for path in documents() {
        let mut before = String::new();
        for block in blocks(&read(&path)) {
            // A line of Cargo.toml.
            if block.starts_with("raindrop-keeper = {") {
                continue;
            }
            // A block may continue the block before it.
            let result = load(&block)
                .or_else(|alone| load(&format!("{before}\n{block}")).map_err(|_| alone));
            if let Err(error) = result {
                panic!("{}:\n{block}\n{error}", path.display());
            }
            before = block;
            loaded += 1;
        }
    }
    assert!(loaded >= 4, "README and docs/configuration.md have some: {loaded}");
}

/// Returns the structure of a document: headings with their level, rows of tables with their number
/// of cells, items of lists, and blocks of code without comments.
fn structure(document: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut in_code = false;
    for line in document.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
            parts.push(line.to_owned());
        } else if in_code {
            parts.push(line.split(" # ").next().unwrap_or_default().trim_end().to_owned());
        } else if line.starts_with('#') {
            parts.push(line.chars().take_while(|character| *character == '#').collect());
        } else if line.starts_with('|') {
            parts.push(format!("row of {} cells", line.matches('|').count() - 1));
        } else if line.starts_with("- ") || line.starts_with(|first: char| first.is_ascii_digit()) {
            parts.push("item".into());
        }
    }
    parts
}

#[test]
fn a_document_and_its_chinese_sister_have_the_same_structure() {
    let sisters: Vec<PathBuf> = documents()
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(".zh-CN.md"))
        .collect();
    assert!(sisters.len() >= 2, "README and docs/migrating.md have one: {sisters:?}");
    for sister in sisters {
        let name = sister.file_name().expect("a name").to_string_lossy().into_owned();
        let english = sister.with_file_name(name.replace(".zh-CN.md", ".md"));
        let [ours, theirs] = [&english, &sister].map(|path| structure(&read(path)));
        for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours, theirs, "{name}: part {index}");
        }
        assert_eq!(ours.len(), theirs.len(), "{name}");
        assert!(read(&english).contains(&name), "{name} is linked");
    }
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    for path in documents() {
        let text = read(&path);
        let targets = text.match_indices("](").map(|(index, _)| &text[index + 2..]);
        for target in targets.filter_map(|rest| rest.split([')', '#']).next()) {
            if !target.is_empty() && !target.contains("://") {
                let file = path.with_file_name(target);
                assert!(file.exists(), "{}: {target}", path.display());
            }
        }
    }
}
