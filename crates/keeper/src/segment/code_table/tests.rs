//! The status of a namespace with codes that have no number left.

use raindrop_core::clock::ManualClock;
use raindrop_store::MemoryStore;
use rand::{SeedableRng, rngs::StdRng};
use tokio::sync::mpsc;

use super::*;
use crate::{
    segment::{namespace::SharedStore, settings::SegmentSettings},
    support::{observer::NoObserver, random::Random},
};

/// Returns a prepared table of these codes, none of which has a block.
fn table(codes: impl IntoIterator<Item = impl Into<String>>) -> CodeTable {
    let store = Arc::new(MemoryStore::new(Arc::new(ManualClock::new(0))));
    let random = Random(Box::new(StdRng::seed_from_u64(1)));
    let shared = Arc::new(SharedStore::new(store, random));
    shared.report.send_modify(|report| report.prepared = true);
    let auto_create = Some(SegmentSpec::default());
    let none = SegmentSettings { auto_create, ..SegmentSettings::new("numbers") };
    let with = |settings: SegmentSettings, code| settings.with_code(code, SegmentSpec::default());
    let settings = codes.into_iter().fold(none, with);
    let namespace = Namespace::new(settings, Arc::new(NoObserver), shared);
    CodeTable::new(namespace, mpsc::unbounded_channel().0)
}

fn set_reason(table: &CodeTable, code: &str, reason: Option<UnavailableReason>) {
    table.get(code).expect("configured").set_reason(reason);
}

#[test]
fn code_between_two_blocks_is_served_beside_one_that_is_used_up() {
    let table = table(["done", "order"]);
    set_reason(&table, "done", Some(UnavailableReason::NumbersUsedUp));
    let status = table.status();
    assert_eq!((status.issuing, status.reason), (true, Some(UnavailableReason::NumbersUsedUp)));
    set_reason(&table, "order", Some(UnavailableReason::StoreLost));
    assert!(!table.status().issuing, "for a reason of its own");
    set_reason(&table, "order", None);
    table.namespace.shared.report_failing(StoreFailure::of_kind("down"));
    let status = table.status();
    assert!(!status.issuing, "because of the store");
    assert_eq!(status.code_of_reason, None);
}

#[test]
fn shown_reason_is_that_of_the_first_code_by_name() {
    let names: Vec<String> = (0..100).map(|code| format!("code{code:02}")).collect();
    let table = table(names.clone());
    let reason = |name: &str| {
        let unknown = ClaimError::UnknownCode(name.to_owned());
        Some(UnavailableReason::CodeRefused(unknown))
    };
    names.iter().for_each(|name| set_reason(&table, name, reason(name)));
    let status = table.status();
    assert_eq!((status.reason, status.code_of_reason), (reason("code00"), Some("code00".into())));
}

#[test]
fn code_found_unreadable_while_a_claim_is_about_to_create_it_is_not_created() {
    let table = table(["order"]);
    std::thread::scope(|scope| {
        let reader = table.codes.read().expect("unpoisoned");
        let claim = scope.spawn(|| table.get_or_create(None, "invoice").map(drop));
        // A lock that a writer waits for admits no further reader.
        while table.codes.try_read().is_ok() {
            std::thread::yield_now();
        }
        table.unreadable.lock().expect("unpoisoned").insert("invoice".to_owned());
        drop(reader);
        let error = claim.join().expect("no panic").expect_err("unreadable");
        let IssueError::NoLease { reason, .. } = error else { panic!("{error}") };
        assert_eq!(reason, UnavailableReason::UnreadableSettings);
    });
    assert!(table.get("invoice").is_none());
}
