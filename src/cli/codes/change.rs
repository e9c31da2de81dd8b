//! `raindrop codes create|set|raise|retire`.

use std::{collections::BTreeSet, sync::Arc};

use super::ambiguous;
use crate::{
    cli::{
        arguments::namespace_of,
        codes::list::{has_code, read},
        confirm::Confirmation,
        failure::Failure,
        output::{error, say},
    },
    config::Config,
    core::segment::{SegmentSpec, SpecChange},
    keeper::{CodeManager, ManageError, RaiseError, SegmentSettings},
    store::{ListedSegment, Store},
};

/// What the operator should know before a next number is raised.
const FOR_GOOD: &str =
    "for good: nothing lowers a next number, and skipped numbers are never issued";

/// Settings of a code; those that are left out have their defaults, or stay.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Settings {
    /// The lower bound of the numbers from now on.
    #[arg(long, value_name = "NUMBER")]
    start: Option<u64>,
    /// The smallest block that a node reserves, in numbers.
    #[arg(long, value_name = "NUMBERS")]
    min_step: Option<u64>,
    /// The largest block that a node reserves, in numbers.
    #[arg(long, value_name = "NUMBERS")]
    max_step: Option<u64>,
    /// The difference between neighbours; fixed once the code exists.
    #[arg(long, value_name = "NUMBER")]
    increment: Option<u64>,
    /// The remainder of every number when it is divided by the increment; fixed like that.
    #[arg(long, value_name = "NUMBER")]
    remainder: Option<u64>,
    /// The largest number.
    #[arg(long, value_name = "NUMBER")]
    max: Option<u64>,
    /// True lowers a larger --max to 2^53 − 1, exact as a JSON number; false undoes just that.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    js_safe: Option<bool>,
}

impl From<Settings> for SpecChange {
    fn from(settings: Settings) -> Self {
        let Settings { start, min_step, max_step, increment, remainder, max, js_safe } = settings;
        Self { start, min_step, max_step, increment, remainder, max, js_safe }
    }
}

pub(super) async fn create(
    store: Arc<dyn Store>,
    namespace: &SegmentSettings,
    code: &str,
    change: &SpecChange,
) -> Result<(), Failure> {
    let manager = CodeManager::new(store, namespace.clone());
    // Refuse bad settings before the store creates a table.
    manager.new_spec(code, change)?;
    manager.prepare().await?;
    manager.put(code, change, true).await?;
    show(&manager, code).await
}

pub(super) async fn set(
    store: Arc<dyn Store>,
    namespace: &SegmentSettings,
    code: &str,
    change: &SpecChange,
    confirmation: &Confirmation,
) -> Result<(), Failure> {
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
        say(&format!(
            "{name} {code}: the next number is {next}, and {} then {FOR_GOOD}",
            spec.first()
        ))?;
    }
    if confirmation.is_dry_run() {
        return say(&format!("{name} {code}: would be set to {spec}"));
    }
    if is_raised && !confirmation.is_given()? {
        return Ok(());
    }
    manager.patch(code, change).await?;
    show(&manager, code).await
}

pub(super) async fn retire(
    store: Arc<dyn Store>,
    namespace: &SegmentSettings,
    code: &str,
    confirmation: &Confirmation,
) -> Result<(), Failure> {
    let manager = existing(store, namespace, code).await?;
    let name = &namespace.namespace;
    say(&format!("{name} {code}: retires it for good, none of its other numbers is issued"))?;
    if confirmation.is_given()? {
        manager.retire(code).await?;
        say(&format!("{name} {code}: retired; nodes that have numbers in hand stop within 30 s"))?;
    }
    Ok(())
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

/// Prints the present state of a code.
async fn show(manager: &CodeManager, code: &str) -> Result<(), Failure> {
    let Some(view) = manager.get(code).await? else { return Ok(()) };
    let settings = view.spec.map(|spec| format!(", {spec}")).unwrap_or_default();
    let (namespace, next) = (&view.listed.namespace, view.listed.next);
    say(&format!("{namespace} {code}: the next number is {next}{settings}"))
}

pub(super) async fn raise(
    config: &Config,
    store: Arc<dyn Store>,
    namespace: Option<&str>,
    by: u64,
    codes: &[String],
    confirmation: &Confirmation,
) -> Result<(), Failure> {
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
        say(&format!("{namespace} {code}: the next number is {next}"))?;
    }
    say(&format!("{namespace}: raises {} next numbers by {by}, {FOR_GOOD}", chosen.len()))?;
    if !confirmation.is_given()? {
        return Ok(());
    }
    let configured = config.segments().find(|settings| settings.namespace == namespace);
    let settings = configured.cloned().unwrap_or_else(|| SegmentSettings::new(namespace));
    let manager = prepared(Arc::clone(&store), &settings).await?;
    let mut left = Vec::new();
    for code in chosen {
        match manager.raise_by(code, by).await {
            Ok(next) => say(&format!("{namespace} {code}: the next number is {next}"))?,
            Err(ManageError::Raise(RaiseError::TooLarge { next, .. }))
                if next > SegmentSpec::LARGEST_NUMBER =>
            {
                say(&format!("{namespace} {code}: has no numbers left"))?;
            }
            // Continue: the other codes must be safe all the same.
            Err(refused @ ManageError::Raise(RaiseError::TooLarge { .. })) => {
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
