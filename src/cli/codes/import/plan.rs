//! Decides at which number each imported code starts.

use std::collections::BTreeMap;

use crate::{
    cli::failure::Failure,
    core::code::{CODE_PATTERN, is_valid_code},
    keeper::{CodeKind, CodeView, SegmentSettings},
    store::ForeignSegment,
};

/// The names to import and their options.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    /// The names to import; empty for all.
    pub(super) names: &'a [String],
    /// Pairs of a name and its code, where those differ.
    pub(super) rename: &'a [(String, String)],
    /// How many numbers to skip in addition to a step.
    pub(super) margin: u64,
}

/// The decision about one code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) from: ForeignSegment,
    pub(super) code: String,
    /// No number below this one is issued after the import.
    pub(super) first: u64,
    pub(super) start: Start,
}

/// How a code gets its first number.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The import creates the code.
    New,
    /// The import raises the next number from this one.
    Raised { next: u64 },
    /// The next number is this one, which is high enough already.
    Kept { next: u64 },
}

impl Import {
    /// Returns the cells of the code's line.
    pub(super) fn cells(&self) -> [String; 6] {
        let Self { from, code, first, start } = self;
        let effect = match start {
            Start::New => "new".to_owned(),
            Start::Raised { next } => format!("raised from {next}"),
            Start::Kept { next } => format!("stays at {next}"),
        };
        let (max_id, step) = (from.max_id.to_string(), from.step.to_string());
        [from.name.clone(), max_id, step, code.clone(), first.to_string(), effect]
    }
}

/// Decides about each code, given the codes that the namespace has.
///
/// # Errors
///
/// When one name cannot be imported. Nothing is imported then.
pub(super) fn plan(
    foreign: Vec<ForeignSegment>,
    selection: &Selection<'_>,
    views: &[CodeView],
    settings: &SegmentSettings,
) -> Result<Vec<Import>, Failure> {
    let mut problems = Vec::new();
    for (index, (name, _)) in selection.rename.iter().enumerate() {
        let is_imported = selection.names.is_empty() || selection.names.contains(name);
        if !is_imported || selection.rename[..index].iter().any(|(other, _)| other == name) {
            problems.push(format!("--rename of {name:?}: must name an imported name, and once"));
        }
    }
    let renamed = selection.rename.iter().map(|(name, _)| name);
    for name in selection.names.iter().chain(renamed) {
        if !foreign.iter().any(|segment| segment.name == *name) {
            problems.push(format!("{name:?} is not in the table"));
        }
    }
    let mut imports: Vec<Import> = Vec::new();
    let mut names_of = BTreeMap::new();
    for from in foreign {
        if !selection.names.is_empty() && !selection.names.contains(&from.name) {
            continue;
        }
        let renamed = selection.rename.iter().find(|(name, _)| *name == from.name);
        let code = renamed.map_or(&from.name, |(_, code)| code).clone();
        if let Some(other) = names_of.insert(code.clone(), from.name.clone()) {
            problems.push(format!("{other:?} and {:?} would both be code {code:?}", from.name));
            continue;
        }
        match one(from, code, selection.margin, views, settings) {
            Ok(import) => imports.push(import),
            Err(problem) => problems.push(problem),
        }
    }
    let new = imports.iter().filter(|import| import.start == Start::New).count();
    let is_managed = |view: &&CodeView| matches!(view.kind, CodeKind::Managed | CodeKind::Retired);
    let (present, max) = (views.iter().filter(is_managed).count(), settings.codes_max);
    if new > max.saturating_sub(present) {
        problems.push(format!(
            "codes.max is {max}, too few for {present} present and {new} new codes: raise it, \
             or list the names to import"
        ));
    }
    if problems.is_empty() {
        return Ok(imports);
    }
    Err(Failure::problems("nothing was imported:", problems))
}

fn one(
    from: ForeignSegment,
    code: String,
    margin: u64,
    views: &[CodeView],
    settings: &SegmentSettings,
) -> Result<Import, String> {
    if !is_valid_code(&code) {
        let name = &from.name;
        return Err(format!(
            "code {code:?} must match {CODE_PATTERN}: rename it with --rename '{name}=CODE', or list \
             the names to import"
        ));
    }
    let view = views.iter().find(|view| view.listed.code == code);
    let spec = view.and_then(|view| view.spec).or_else(|| settings.member_spec(&code));
    let max = spec.unwrap_or(settings.defaults).max;
    let above = [from.step, margin, 1].into_iter().try_fold(from.max_id, u64::checked_add);
    let first = above.filter(|first| *first <= max).ok_or_else(|| {
        let (max_id, step) = (from.max_id, from.step);
        format!(
            "code {code:?} would start at {max_id} + {step} (step) + {margin} (--margin) + 1, above \
             its largest number, {max}"
        )
    })?;
    let is_in_use = view.is_some_and(|view| view.listed.step > 0);
    let start = match view.map(|view| (view.kind, view.listed.next)) {
        None if settings.codes.contains_key(&code) => {
            return Err(format!(
                "code {code:?} is in the configuration, but not in the store yet: set its start to \
                 {first} there, or remove its entry"
            ));
        }
        Some((CodeKind::Retired, _)) => return Err(format!("code {code:?} is retired for good")),
        // `Unserved`: an interrupted import left the code, and no node has reserved from it.
        None | Some((CodeKind::Unserved, _)) if !is_in_use => Start::New,
        None | Some((CodeKind::Unserved, _)) => {
            return Err(format!(
                "code {code:?} is in use, but not in this configuration: import with the \
                 configuration of the nodes, or run `raindrop codes create {code}` first"
            ));
        }
        Some((_, next)) if next < first => Start::Raised { next },
        Some((_, next)) => Start::Kept { next },
    };
    Ok(Import { from, code, first, start })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::{lease::Token, segment::SegmentSpec},
        store::ListedSegment,
    };

    fn foreign(name: &str, max_id: u64, step: u64) -> ForeignSegment {
        ForeignSegment { name: name.into(), max_id, step, delta: 1 }
    }

    fn view(code: &str, next: u64, kind: CodeKind) -> CodeView {
        let listed = ListedSegment {
            namespace: "numbers".into(),
            code: code.into(),
            next,
            step: 0,
            updated_ms: 0,
            created_ms: 0,
            epoch: Token::UNUSED,
            settings: None,
        };
        CodeView {
            listed,
            kind,
            spec: Some(SegmentSpec { max: 1 << 53, ..SegmentSpec::default() }),
        }
    }

    fn settings() -> SegmentSettings {
        SegmentSettings::new("numbers").with_code("fixed", SegmentSpec::default())
    }

    fn planned(
        rows: &[ForeignSegment],
        names: &[&str],
        rename: &[(&str, &str)],
        margin: u64,
        views: &[CodeView],
    ) -> Result<Vec<Import>, Failure> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let owned = |(name, code): &(&str, &str)| ((*name).to_owned(), (*code).to_owned());
        let rename: Vec<_> = rename.iter().map(owned).collect();
        let selection = Selection { names: &names, rename: &rename, margin };
        plan(rows.to_vec(), &selection, views, &settings())
    }

    #[test]
    fn codes_start_above_the_largest_number_a_step_and_the_margin() {
        let rows = [foreign("a", 5_000, 2_000), foreign("b b", 0, 0), foreign("skipped", 1, 1)];
        let views = [view("a", 7_011, CodeKind::Managed), view("b", 10, CodeKind::Configured)];
        let imports = planned(&rows, &["a", "b b"], &[("b b", "b")], 10, &views).expect("valid");
        let firsts: Vec<_> = imports.iter().map(|it| (it.code.as_str(), it.first)).collect();
        assert_eq!(firsts, [("a", 7_011), ("b", 11)]);
        assert_eq!(imports[0].start, Start::Kept { next: 7_011 });
        assert_eq!(imports[1].start, Start::Raised { next: 10 });
        let imports = planned(&rows, &["a"], &[], 11, &views).expect("valid");
        assert_eq!(imports[0].start, Start::Raised { next: 7_011 });
        // Nodes with another configuration reserve it.
        let listed = ListedSegment { step: 1, ..view("a", 7_001, CodeKind::Unserved).listed };
        let views = [CodeView { listed, ..view("a", 7_001, CodeKind::Unserved) }];
        assert!(planned(&rows, &["a"], &[], 0, &views).is_err());
        // An interrupted import left the code without its settings.
        let views = [view("a", 7_001, CodeKind::Unserved)];
        for views in [&views[..], &[]] {
            let imports = planned(&rows, &["a"], &[], 0, views).expect("valid");
            assert_eq!((imports[0].first, &imports[0].start), (7_001, &Start::New));
        }
    }

    #[test]
    fn every_name_that_cannot_be_imported_is_told_at_once() {
        let largest = SegmentSpec::LARGEST_NUMBER;
        let rows = [
            foreign("a b", 1, 1),
            foreign("fixed", 1, 1),
            foreign("full", largest, 0),
            foreign("gone", 1, 1),
            foreign("huge", u64::MAX, 1),
            foreign("one", 1, 1),
            foreign("safe", 1 << 53, 0),
            foreign("two", 1, 1),
        ];
        let views = [view("gone", 1, CodeKind::Retired), view("safe", 1, CodeKind::Managed)];
        let rename = [("two", "one"), ("three", "four"), ("two", "2")];
        let error = planned(&rows, &[], &rename, 0, &views).expect_err("nothing fits");
        let Failure::Problems(text) = error else { panic!("{error:?}") };
        let lines: Vec<&str> = text.lines().collect();
        let said = [
            "nothing was imported",
            "--rename of \"two\": must name an imported name, and once",
            "\"three\" is not in the table",
            "code \"a b\" must match [A-Za-z0-9]",
            "code \"fixed\" is in the configuration, but not in the store yet: set its start to 3",
            "code \"full\" would start at 9223372036854775806 + 0 (step) + 0 (--margin) + 1",
            "code \"gone\" is retired",
            "code \"huge\" would start at",
            "code \"safe\" would start at 9007199254740992",
            "\"one\" and \"two\" would both be code \"one\"",
        ];
        assert_eq!(lines.len(), said.len(), "{text}");
        for (line, said) in lines.iter().zip(said) {
            assert!(line.contains(said), "{said}: {text}");
        }
        // Retired codes count, too.
        let settings = SegmentSettings { codes_max: 2, ..settings() };
        let selection = Selection { names: &[], rename: &[], margin: 0 };
        let views = [view("gone", 1, CodeKind::Retired)];
        let rows = [foreign("one", 1, 1), foreign("two", 1, 1)];
        assert!(plan(rows[..1].to_vec(), &selection, &views, &settings).is_ok());
        let error = plan(rows.to_vec(), &selection, &views, &settings).expect_err("too many");
        let said = "codes.max is 2, too few for 1 present and 2 new codes";
        assert!(format!("{error:?}").contains(said), "{error:?}");
        // The largest number itself is one that can be issued.
        let last = planned(&[foreign("last", largest - 1, 0)], &[], &[], 0, &[]).expect("valid");
        assert_eq!(last[0].first, largest);
    }
}
