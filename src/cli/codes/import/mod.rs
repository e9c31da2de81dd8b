//! `raindrop codes import`: starts codes above the numbers of another service.

mod plan;

use std::{path::PathBuf, sync::Arc};

use self::plan::{Import, Selection, Start};
use super::{
    change::{prepared, report_codes},
    list::read,
};
use crate::{
    cli::{
        confirm::Confirmation,
        failure::Failure,
        output::{Report, table},
    },
    config::{Config, small_file},
    core::{clock::SystemClock, segment::SpecChange},
    keeper::{CodeManager, CodeView, ManageError, SegmentSettings},
    store::{
        self, Failover, ForeignSegment, ForeignTable, Store, StoreError, StoreSettings, StoreUrl,
    },
};

/// A service that keeps the largest number that it reserved of each name in a table.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "lower")]
enum Service {
    // `max_id` is one past the last number that was reserved.
    Leaf,
    // `max_id` is the last number that was reserved.
    TinyId,
    // Segments over JDBC. `last_max_id` is the last number that was reserved.
    CosId,
}

impl Service {
    /// Returns the service's table, which has this name if it was renamed.
    fn table(self, name: Option<&str>) -> ForeignTable {
        // github.com/Meituan-Dianping/Leaf: scripts/leaf_alloc.sql
        // github.com/didi/tinyid: tinyid-server/db.sql
        // github.com/Ahoo-Wang/CosId: cosid-jdbc/src/main/init-script/init-cosid-mysql.sql
        let (service, usual, columns): (_, _, &[_]) = match self {
            Self::Leaf => ("leaf", "leaf_alloc", &["biz_tag", "max_id", "step"]),
            Self::TinyId => ("tinyid", "tiny_id_info", &["biz_type", "max_id", "step", "delta"]),
            Self::CosId => ("cosid", "cosid", &["name", "last_max_id"]),
        };
        ForeignTable { service, name: name.unwrap_or(usual).to_owned(), columns }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ImportArguments {
    /// The service whose table is read.
    service: Service,
    /// The names to import; by default all of the table.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The database of the other service; by default the store.
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// A file that contains this URL, so that no list of processes shows its password.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    from_file: Option<PathBuf>,
    /// The table, if it is not called leaf_alloc, tiny_id_info or cosid.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// How many numbers to skip in addition to a step; required for cosid, whose table has no step.
    #[arg(long, value_name = "NUMBERS", required_if_eq("service", "cosid"))]
    margin: Option<u64>,
    /// The code of a name; by default it is the name. May be repeated.
    #[arg(long, value_name = "NAME=CODE", value_parser = renaming)]
    rename: Vec<(String, String)>,
    #[command(flatten)]
    pub(super) confirmation: Confirmation,
}

impl ImportArguments {
    /// Returns the address of the other database, if an argument names one.
    fn url(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.from_file else { return Ok(self.from.clone()) };
        let text = small_file::read_text(file);
        let text = text.map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
        Ok(Some(text.trim().to_owned()))
    }
}

/// Reads a name and its code. No code has an equals sign.
fn renaming(text: &str) -> Result<(String, String), String> {
    let parts = text.rsplit_once('=').filter(|(name, _)| !name.is_empty());
    let (name, code) = parts.ok_or("must be the table's name, an equals sign and the code")?;
    Ok((name.to_owned(), code.to_owned()))
}

pub(super) async fn run(
    config: &Config,
    store: Arc<dyn Store>,
    namespace: &SegmentSettings,
    arguments: &ImportArguments,
    report: Report,
) -> Result<(), Failure> {
    let foreign = arguments.service.table(arguments.table.as_deref());
    let Some(url) = arguments.url()? else {
        let read = async || Ok(store.foreign_segments(&foreign).await?);
        return import(&store, namespace, &foreign.name, read, arguments, report).await;
    };
    let place = StoreUrl::new(&url).to_string();
    let at_place = |error: StoreError| Failure::from(error).at(&place);
    // The TLS settings of the store do not apply to the other database.
    let settings = StoreSettings {
        timeout: config.store.timeout,
        // The command only reads there, so a fail-over does not matter.
        failover: Failover::Lossless,
        ..StoreSettings::new(url)
    };
    let other = store::connect(&settings, Arc::new(SystemClock::default())).map_err(at_place)?;
    let read = async || other.foreign_segments(&foreign).await.map_err(at_place);
    let table = format!("{} of {place}", foreign.name);
    let result = import(&store, namespace, &table, read, arguments, report).await;
    other.close().await;
    result
}

/// Imports the numbers that `read_foreign` returns. Reads them again just before and just after it
/// writes the codes, because a service that still runs reserves more.
async fn import(
    store: &Arc<dyn Store>,
    namespace: &SegmentSettings,
    place: &str,
    read_foreign: impl AsyncFn() -> Result<Vec<ForeignSegment>, Failure>,
    arguments: &ImportArguments,
    report: Report,
) -> Result<(), Failure> {
    let ImportArguments { names, margin, rename, confirmation, .. } = arguments;
    let selection = Selection { names, rename, margin: margin.unwrap_or(0) };
    let foreign = read_foreign().await?;
    let manager = CodeManager::new(Arc::clone(store), namespace.clone());
    let known = views(store, &manager).await?;
    let imports = plan::plan(foreign, &selection, &known, namespace)?;
    let codes = || imports.iter().map(|import| &import.code);
    if imports.is_empty() {
        report.say(&format!("{place} has no rows"))?;
        return report_codes(report, &manager, codes(), true).await;
    }
    report.print(&listed(&imports))?;
    for Import { from, .. } in imports.iter().filter(|import| import.from.delta > 1) {
        let (name, delta) = (&from.name, from.delta);
        report.say(&format!(
            "{name} has delta {delta}: other databases may have other numbers of it; import it from \
             each of them"
        ))?;
    }
    // A request can create a code on demand meanwhile.
    let is_in_use =
        |import: &&Import| import.start != Start::New || namespace.on_demand(&import.code).is_ok();
    if let Some(Import { code, first, .. }) = imports.iter().find(is_in_use) {
        report.say(&format!(
            "running nodes go on issuing numbers that they reserved earlier, for example of {code} \
             below {first}: stop them before you proceed, and start them after the import"
        ))?;
    }
    report.say(&format!(
        "nothing may reserve numbers in {place} any more: stop the other service first, or rename \
         its table, which --table then names"
    ))?;
    if !confirmation.is_given()? {
        return report_codes(report, &manager, codes(), false).await;
    }
    let foreign = read_foreign().await?;
    check_unmoved(place, &imports, &foreign, "nothing was changed")?;
    let known = views(store, &manager).await?;
    if plan::plan(foreign, &selection, &known, namespace)? != imports {
        return Err(Failure::Failed(
            "codes changed since they were listed: nodes still reserve numbers; nothing was changed"
                .into(),
        ));
    }
    let manager = prepared(Arc::clone(store), namespace).await?;
    let mut done = Vec::new();
    for import in &imports {
        if let Err(error) = write(&manager, import).await {
            let done = if done.is_empty() { "none".into() } else { done.join(", ") };
            return Err(Failure::from(error).at(&format!(
                "code {} was not imported, codes before it: {done}; run this again",
                import.code
            )));
        }
        done.push(import.code.as_str());
    }
    let imported = "its code was imported too low: run this again before any node serves it";
    check_unmoved(place, &imports, &read_foreign().await?, imported)?;
    for Import { code, .. } in &imports {
        if let Some(view) = manager.get(code).await? {
            let (namespace, next) = (&namespace.namespace, view.listed.next);
            report.say(&format!("{namespace} {code}: the next number is {next}"))?;
        }
    }
    report_codes(report, &manager, codes(), true).await
}

/// Returns the codes of a namespace; none if the store has no segment table.
async fn views(store: &Arc<dyn Store>, manager: &CodeManager) -> Result<Vec<CodeView>, Failure> {
    Ok(read(&**store).await?.into_iter().filter_map(|listed| manager.view(listed)).collect())
}

async fn write(
    manager: &CodeManager,
    Import { code, first, start, .. }: &Import,
) -> Result<(), ManageError> {
    match start {
        Start::New => {
            let from_first = SpecChange { start: Some(*first), ..SpecChange::default() };
            manager.put(code, &from_first, false).await.map(drop)
        }
        Start::Raised { .. } | Start::Kept { .. } => manager.raise_to(code, *first).await.map(drop),
    }
}

fn listed(imports: &[Import]) -> String {
    let lines: Vec<_> = imports.iter().map(Import::cells).collect();
    table(["NAME", "MAX_ID", "STEP", "CODE", "FIRST", "EFFECT"], &lines)
}

/// Fails if the other service has reserved numbers since the first read.
fn check_unmoved(
    place: &str,
    imports: &[Import],
    now: &[ForeignSegment],
    effect: &str,
) -> Result<(), Failure> {
    for Import { from, .. } in imports {
        let found = now.iter().find(|segment| segment.name == from.name);
        if found != Some(from) {
            let (name, max_id) = (&from.name, from.max_id);
            let present = found.map_or("is gone".to_owned(), |segment| {
                format!("now has {} and step {}", segment.max_id, segment.step)
            });
            return Err(Failure::Failed(format!(
                "{name} in {place} had {max_id} and step {}, and {present}: the other service still \
                 runs; {effect}",
                from.step
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
