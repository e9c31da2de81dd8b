//! The documentation: its configurations can be used, its links lead somewhere, the book has every
//! page, and each document and its Chinese sister have the same structure.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Component, Path, PathBuf},
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

/// Every document of the project: those of its folder, and those at any depth of `docs`.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found: Vec<PathBuf> =
        entries(root).into_iter().filter(|path| is_markdown(path)).collect();
    add_documents(&root.join("docs"), &mut found);
    found
}

/// Adds the documents at any depth of a folder.
fn add_documents(folder: &Path, found: &mut Vec<PathBuf>) {
    add_files(folder, &is_markdown, found);
}

/// Adds the files at any depth of a folder, apart from hidden folders and those that builds write.
fn add_files(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules" {
            add_files(&path, is_wanted, found);
        } else if is_wanted(&path) {
            found.push(path);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "md")
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

/// The lines of a document that are not code.
fn prose(document: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    document.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// The targets of the links in a document.
fn targets(document: &str) -> Vec<&str> {
    prose(document)
        .flat_map(|line| line.match_indices("](").map(|(index, _)| &line[index + 2..]))
        .filter_map(|rest| rest.split(')').next())
        .collect()
}

/// The places of a document that a link can name: its headings, as GitHub and mdBook name them, and
/// elements with an id.
fn places(document: &str) -> HashSet<String> {
    let mut places = HashSet::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for line in prose(document) {
        if let Some((_, heading)) = line.split_once("# ").filter(|_| line.starts_with('#')) {
            let name = place_of(heading);
            let before = seen.entry(name.clone()).or_default();
            places.insert(if *before == 0 { name } else { format!("{name}-{before}") });
            *before += 1;
        }
        let ids =
            line.match_indices("id=\"").filter_map(|(at, _)| line[at + 4..].split('"').next());
        places.extend(ids.map(str::to_owned));
    }
    places
}

#[test]
fn every_source_file_that_a_document_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    add_files(root, &|path| path.extension().is_some_and(|ending| ending == "rs"), &mut sources);
    let mut named = 0;
    for document in documents().into_iter().filter(|path| !path.ends_with("CHANGELOG.md")) {
        for name in read(&document).split('`').filter(|name| name.ends_with(".rs")) {
            let is_name =
                |character: char| character.is_ascii_alphanumeric() || "_/".contains(character);
            let Some(stem) = name.strip_suffix(".rs").filter(|stem| !stem.is_empty()) else {
                continue;
            };
            if !stem.chars().all(is_name) {
                continue;
            }
            // The documents write core/… for crates/core/src/….
            let path = match stem.split_once('/') {
                Some((part @ ("core" | "store" | "keeper"), rest)) => {
                    format!("{part}/src/{rest}.rs")
                }
                _ => name.to_owned(),
            };
            let exists = sources.iter().any(|source| source.ends_with(&path));
            assert!(exists, "{} names {name}", document.display());
            named += 1;
        }
    }
    assert!(named > 40, "architecture and safety name many: {named}");
}

/// The name of a heading as a place: the text of its links in small letters, with hyphens for spaces.
fn place_of(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, link)) = rest.split_once("](") {
        text.push_str(before);
        rest = link.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text.to_lowercase()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// The path without its steps up.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

#[test]
fn every_link_leads_to_a_file_and_a_place_in_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = documents();
    for folder in ["clients", "helm", "tests"] {
        add_documents(&root.join(folder), &mut pages);
    }
    let mut faults = Vec::new();
    for path in pages {
        for target in targets(&read(&path)) {
            if target.contains("://") {
                continue;
            }
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => path.clone(),
                file => normal(&path.with_file_name(file)),
            };
            let leads = match is_markdown(&file) && !place.is_empty() {
                true => file.exists() && places(&read(&file)).contains(place),
                false => file.exists(),
            };
            if !leads {
                faults.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "links that lead nowhere:\n{}", faults.join("\n"));
}

#[test]
fn the_book_has_every_page_once() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let contents = docs.join("SUMMARY.md");
    let text = read(&contents);
    let mut listed: Vec<PathBuf> =
        targets(&text).into_iter().map(|target| docs.join(target)).collect();
    let mut pages = Vec::new();
    add_documents(&docs, &mut pages);
    pages.retain(|page| *page != contents);
    pages.sort();
    listed.sort();
    assert_eq!(listed, pages, "docs/SUMMARY.md lists each page of docs");
}
