//! The configurations that the documentation shows are ones that can be used.

use std::{fs, path::Path};

use raindrop::server::config::{Config, Inputs};

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

#[test]
fn every_configuration_in_the_documentation_loads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documents = [root.to_owned(), root.join("docs")].into_iter().flat_map(|folder| {
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
    });
    let mut loaded = 0;
    for path in documents.filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let mut before = String::new();
        for block in blocks(&fs::read_to_string(&path).expect("a document")) {
            // A line of Cargo.toml.
            if block.starts_with("raindrop = {") {
                continue;
            }
            // A block may go on from those above it.
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
