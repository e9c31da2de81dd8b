//! `raindrop codes raise`.

use std::collections::BTreeSet;

use super::list;
use crate::{
    cli::{failure::Failure, output::say},
    core::segment::SegmentSpec,
    keeper::raise_code,
    store::Store,
};

#[derive(Debug, clap::Args)]
pub(super) struct RaiseArguments {
    /// How much to add to each next number.
    #[arg(long, value_name = "NUMBERS", value_parser = clap::value_parser!(u64).range(1..=SegmentSpec::LARGEST_NUMBER))]
    by: u64,
    /// The namespace.
    #[arg(long, value_name = "NAME")]
    namespace: String,
    /// The codes; by default all of the namespace.
    #[arg(value_name = "CODE")]
    codes: Vec<String>,
}

pub(super) async fn run(store: &dyn Store, arguments: &RaiseArguments) -> Result<(), Failure> {
    let RaiseArguments { by, namespace, codes } = arguments;
    let listed = list::read(store).await?;
    let of_namespace = listed.iter().filter(|listed| listed.namespace == *namespace);
    let known: Vec<String> = of_namespace.map(|listed| listed.code.clone()).collect();
    if known.is_empty() {
        let namespaces: BTreeSet<&str> =
            listed.iter().map(|listed| listed.namespace.as_str()).collect();
        let namespaces = Vec::from_iter(namespaces).join(", ");
        return Err(Failure::Usage(format!(
            "namespace {namespace:?} has no codes in the store; namespaces with codes: {namespaces}"
        )));
    }
    // Refuses a bad one before any is changed.
    if let Some(unknown) = codes.iter().find(|code| !known.contains(code)) {
        let known = known.join(", ");
        let text =
            format!("code {unknown:?} is not in namespace {namespace:?}; there are: {known}");
        return Err(Failure::Usage(text));
    }
    for code in if codes.is_empty() { &known } else { codes } {
        let next = raise_code(store, namespace, code, *by).await?;
        say(&format!("{namespace} {code}: the next number is {next}"))?;
    }
    Ok(())
}
