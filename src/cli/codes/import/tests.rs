use std::cell::RefCell;

use clap::Parser;

use super::*;
use crate::{core::clock::ManualClock, store::MemoryStore};

#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    import: ImportArguments,
}

fn order(max_id: u64) -> Vec<ForeignSegment> {
    vec![ForeignSegment { name: "order".into(), max_id, step: 100, delta: 1 }]
}

/// Imports into a store while the table answers one thing after the other; then the next number.
async fn imported(
    store: &Arc<dyn Store>,
    answers: &[Vec<ForeignSegment>],
) -> (Result<(), Failure>, Option<u64>) {
    let arguments = Arguments::parse_from(["import", "leaf", "--yes"]).import;
    let settings = SegmentSettings::new("numbers");
    let answers = RefCell::new(answers.iter().cloned());
    let read_foreign = async || Ok(answers.borrow_mut().next().expect("an answer for each read"));
    let result =
        import(store, &settings, "leaf_alloc", read_foreign, &arguments, Report::Text).await;
    let next = store.list_segments().await.expect("memory does not fail").pop().map(|it| it.next);
    (result, next)
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Arc::new(ManualClock::new(0))))
}

#[tokio::test]
async fn import_can_be_repeated_and_never_lowers_a_number() {
    let store = memory();
    for (max_id, next) in [(500, 601), (500, 601), (900, 1_001), (700, 1_001)] {
        let (result, found) =
            imported(&store, &[order(max_id), order(max_id), order(max_id)]).await;
        result.expect("imported");
        assert_eq!(found, Some(next));
    }
}

#[tokio::test]
async fn service_that_still_runs_is_noticed() {
    let refused = |result: Result<(), Failure>| match result {
        Err(Failure::Failed(text)) => text,
        other => panic!("{other:?}"),
    };
    let store = memory();
    let (result, next) = imported(&store, &[order(500), order(600)]).await;
    let text = refused(result);
    let said = "order in leaf_alloc had 500 and step 100, and now has 600 and step 100: the other \
                service still runs; nothing was changed";
    assert_eq!((text.as_str(), next), (said, None));
    let (result, next) = imported(&store, &[order(500), Vec::new()]).await;
    assert!(refused(result).contains("is gone") && next.is_none());
    let (result, next) = imported(&store, &[order(500), order(500), order(600)]).await;
    assert!(refused(result).contains("imported too low"));
    assert_eq!(next, Some(601));
    let (result, next) = imported(&store, &[order(600), order(600), order(600)]).await;
    result.expect("imported");
    assert_eq!(next, Some(701));
}

#[test]
fn arguments_are_checked() {
    let parse = |more: &[&str]| Arguments::try_parse_from([&["import"], more].concat());
    let import = parse(&["leaf", "a", "--rename", "a=b=c"]).expect("valid").import;
    assert_eq!(import.rename, [("a=b".to_owned(), "c".to_owned())]);
    for (given, said) in [
        (&["cosid"][..], "--margin"),
        (&["snowflake"], "leaf, tinyid, cosid"),
        (&["leaf", "--rename", "a"], "an equals sign"),
        (&["leaf", "--rename", "=a"], "an equals sign"),
    ] {
        let error = parse(given).expect_err("refused").to_string();
        assert!(error.contains(said), "{given:?}: {error}");
    }
    assert!(parse(&["cosid", "--margin", "0"]).is_ok());
}
