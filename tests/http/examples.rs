//! The example that embeds the keeper into a service of one's own.

use crate::example::{assert_ascending, run};

#[test]
fn own_service_answers_ids_and_releases_its_lease() {
    assert_ascending(&run("own_service", &[]), 10);
}

#[test]
fn own_service_continues_above_its_earlier_ids() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("UTF-8");
    let mut ids = run("own_service", &["127.0.0.1:0", path]);
    ids.extend(run("own_service", &["127.0.0.1:0", path]));
    assert_ascending(&ids, 20);
}
