//! `raindrop codes create|set|raise|retire`.

use std::{collections::BTreeSet, sync::Arc};

use serde::Serialize;

use super::ambiguous;
use crate::{
    cli::{
        arguments::namespace_of,
        codes::list::{has_code, read},
        confirm::Confirmation,
        failure::Failure,
        output::{Report, error},
    },
    config::Config,
    core::segment::{SegmentSpec, SpecChange},
    keeper::{CodeManager, ManageError, RaiseError, SegmentSettings},
    server::{CodeDocument, GivenSettings},
    store::{ListedSegment, Store},
};

/// Warns the operator before a command raises a next number.
pub(super) const FOR_GOOD: &str =
    "for good: nothing lowers a next number, and skipped numbers are never issued";

/// The document of a command that changes codes, for `--json`.
#[derive(Serialize)]
pub(super) struct Changed {
    /// Whether the command did all that it was to do.
    done: bool,
    /// The codes that it is about, as the store has them now, like those of `GET /codes`.
    codes: Vec<CodeDocument>,
    /// Only with `set --dry-run`: the code with the settings that it would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_be: Option<CodeDocument>,
}

/// Prints the document of a command, if the report is JSON.
pub(super) async fn report_codes(
    report: Report,
    manager: &CodeManager,
    codes: impl IntoIterator<Item: AsRef<str>>,
    done: bool,
) -> Result<(), Failure> {
    if report == Report::Text {
        return Ok(());
    }
    let mut documents = Vec::new();
    for code in codes {
        documents.extend(manager.get(code.as_ref()).await?.map(CodeDocument::stored));
    }
    report.document(&Changed { done, codes: documents, would_be: None })
}

pub(super) async fn create(
    store: Arc<dyn Store>,
    namespace: &SegmentSettings,
    code: &str,
    change: &SpecChange,
    report: Report,
) -> Result<(), Failure> {
    let manager = CodeManager::new(store, namespace.clone());
    // Refuse bad settings before the store creates a table.
    manager.new_spec(code, change)?;
    manager.prepare().await?;
    manager.put(code, change, true).await?;
    if let Some(form) = &change.text
        && let Some((other, other_form)) = manager.with_equal_texts(code, form).await?
    {
        error(&format!(
            "codes {code:?} and {other:?} may issue equal texts, as {form} and {other_form}"
        ));
    }
    show(&manager, code, report).await
}

pub(super) async fn set(
    store: Arc<dyn Store>,
    namespace: &SegmentSettings,
    code: &str,
    settings: GivenSettings,
    confirmation: &Confirmation,
    report: Report,
) -> Result<(), Failure> {
    let change = &SpecChange::from(settings);
    if *change == SpecChange::default() {
        let text = "codes set: must have at least one setting, such as --max-step";
        return Err(Failure::Usage(text.into()));
    }
    let manager = existing(store, namespace, code).await?;
    let next = manager.get(code).await?.map_or(0, |view| view.listed.next);
    let name = &namespace.namespace;
    let spec = manager.preview_patch(code, change).await?;
    let is_raised = spec.first() > next;
    if is_raised {
        confirmation.check("codes set --start")?;
        report.say(&format!(
            "{name} {code}: the next number is {next}, and {} then {FOR_GOOD}",
            spec.first()
        ))?;
    }
    if confirmation.is_dry_run() {
        report.say(&format!("{name} {code}: would be set to {spec}"))?;
        let view = manager.get(code).await?;
        let codes = view.iter().cloned().map(CodeDocument::stored).collect();
        let would_be = view.map(|view| CodeDocument::stored(view.with(spec)));
        return report.document(&Changed { done: false, codes, would_be });
    }
    if is_raised {
        confirmation.is_given()?;
    }
    manager.patch(code, change).await?;
    show(&manager, code, report).await
}

pub(super) async fn retire(
    store: Arc<dyn Store>,
    namespace: &SegmentSettings,
    code: &str,
    confirmation: &Confirmation,
    report: Report,
) -> Result<(), Failure> {
    let manager = existing(store, namespace, code).await?;
    let place = format!("{} {code}", namespace.namespace);
    report.say(&format!("{place}: retires it for good, none of its other numbers is issued"))?;
    let is_confirmed = confirmation.is_given()?;
    if is_confirmed {
        manager.retire(code).await?;
        report
            .say(&format!("{place}: retired; nodes that have numbers in hand stop within 30 s"))?;
    }
    report_codes(report, &manager, [code], is_confirmed).await
}

/// Returns the manager of a namespace, for a change of a code that exists and is not configured.
/// Any other code is refused before the command asks a question or creates tables or a record.
async fn existing(
    store: Arc<dyn Store>,
    namespace: &SegmentSettings,
    code: &str,
) -> Result<CodeManager, Failure> {
    let manager = CodeManager::new(Arc::clone(&store), namespace.clone());
    manager.new_spec(code, &SpecChange::default())?;
    if !has_code(&*store, &namespace.namespace, code).await? {
        return Err(ManageError::NotManaged(code.to_owned()).into());
    }
    manager.prepare().await?;
    Ok(manager)
}

fn no_codes() -> Failure {
    Failure::Usage("the store has no codes".into())
}

/// Returns the manager of a namespace, and creates its tables if they are missing.
pub(super) async fn prepared(
    store: Arc<dyn Store>,
    namespace: &SegmentSettings,
) -> Result<CodeManager, Failure> {
    let manager = CodeManager::new(store, namespace.clone());
    manager.prepare().await?;
    Ok(manager)
}

/// Prints the present state of a code that was changed.
async fn show(manager: &CodeManager, code: &str, report: Report) -> Result<(), Failure> {
    let Some(view) = manager.get(code).await? else { return Ok(()) };
    let settings = view.spec.map(|spec| format!(", {spec}")).unwrap_or_default();
    let (namespace, next) = (&view.listed.namespace, view.listed.next);
    report.say(&format!("{namespace} {code}: the next number is {next}{settings}"))?;
    report.document(&Changed {
        done: true,
        codes: vec![CodeDocument::stored(view)],
        would_be: None,
    })
}

/// The arguments of `raindrop codes raise`.
#[derive(Clone, Copy)]
pub(super) struct Raise<'a> {
    pub(super) config: &'a Config,
    pub(super) namespace: Option<&'a str>,
    pub(super) by: u64,
    /// All of the namespace if empty.
    pub(super) codes: &'a [String],
    pub(super) confirmation: &'a Confirmation,
}

pub(super) async fn raise(
    store: Arc<dyn Store>,
    raise: Raise<'_>,
    report: Report,
) -> Result<(), Failure> {
    let Raise { config, namespace, by, codes, confirmation } = raise;
    let listed = read(&*store).await?;
    let namespaces: BTreeSet<&str> = listed.iter().map(|it| it.namespace.as_str()).collect();
    let namespace = match (namespace, namespaces.first()) {
        (Some(given), _) if namespaces.contains(given) => given,
        (Some(given), _) => {
            namespace_of(config, given)?;
            let known = Vec::from_iter(namespaces).join(", ");
            return Err(Failure::Usage(format!(
                "namespace {given:?} has no codes in the store; namespaces with codes: {known}"
            )));
        }
        (None, Some(only)) if namespaces.len() == 1 => only,
        (None, Some(_)) => return Err(ambiguous(namespaces)),
        (None, None) => return Err(no_codes()),
    };
    let of_namespace = listed.iter().filter(|listed| listed.namespace == namespace);
    let known: Vec<String> = of_namespace.map(|listed| listed.code.clone()).collect();
    // Refuse an unknown code before any is changed.
    if let Some(unknown) = codes.iter().find(|code| !known.contains(code)) {
        let known = known.join(", ");
        return Err(Failure::Usage(format!(
            "code {unknown:?} is not in namespace {namespace:?}; there are: {known}"
        )));
    }
    let chosen = if codes.is_empty() { &known } else { codes };
    for ListedSegment { code, next, .. } in listed
        .iter()
        .filter(|listed| listed.namespace == namespace && chosen.contains(&listed.code))
    {
        report.say(&format!("{namespace} {code}: the next number is {next}"))?;
    }
    report
        .say(&format!("{namespace}: raises {} next numbers by {by}, {FOR_GOOD}", chosen.len()))?;
    let configured = config.segments().find(|settings| settings.namespace == namespace);
    let settings = configured.cloned().unwrap_or_else(|| SegmentSettings::new(namespace));
    if !confirmation.is_given()? {
        let manager = CodeManager::new(store, settings);
        return report_codes(report, &manager, chosen, false).await;
    }
    let manager = prepared(store, &settings).await?;
    let raised = raise_each(&manager, namespace, chosen, by, report).await;
    report_codes(report, &manager, chosen, raised.is_ok()).await?;
    raised
}

/// Raises these codes one after the other, and says their next numbers.
async fn raise_each(
    manager: &CodeManager,
    namespace: &str,
    codes: &[String],
    by: u64,
    report: Report,
) -> Result<(), Failure> {
    let mut left = Vec::new();
    for code in codes {
        match manager.raise_by(code, by).await {
            Ok(next) => report.say(&format!("{namespace} {code}: the next number is {next}"))?,
            Err(ManageError::Raise(RaiseError::TooLarge { next, .. }))
                if next > SegmentSpec::LARGEST_NUMBER =>
            {
                report.say(&format!("{namespace} {code}: has no numbers left"))?;
            }
            // Continue: the other codes must be safe all the same.
            Err(
                refused @ (ManageError::Raise(RaiseError::TooLarge { .. })
                | ManageError::Unreadable { .. }),
            ) => {
                error(&refused.to_string());
                left.push(code.as_str());
            }
            Err(failed) => return Err(failed.into()),
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(format!("not raised: {}", left.join(", "))))
}
