//! Tests what only the Kubernetes store has: Leases that people see and delete, permissions, and
//! tokens that expire.

use std::{collections::HashSet, fs, path::Path, sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        coordination::v1::Lease,
        core::v1::ServiceAccount,
        rbac::v1::{Role, RoleBinding},
    },
    serde::de::DeserializeOwned,
    serde_json::{Value, from_value, json},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use raindrop::{
    core::{
        clock::SystemClock,
        lease::{EpochClocks, HighWaterMarks, NodeTimes, RowExpiry, RowWrite},
        preset::Preset,
    },
    keeper::{Issuer, Keeper, KeeperSettings, LeaseTimes, NoObserver, Operator, OperatorError},
    store::{
        LayoutRecord, ManagedCode, NewRows, NewSegment, Reservation, Reserved, Store, StoreError,
    },
};
use tokio::task::JoinSet;

use crate::{
    backend::{
        Backend, EPOCH, birth, create_rows, new_rows, open, patient, record, release, rows_record,
        scope, token, with_rows, workers, write,
    },
    outage::PATIENCE,
    support::{
        kubernetes::{Kubernetes, client, parameter},
        poll,
        server::Server,
    },
};

/// Returns a client of the Leases of a database.
async fn leases(url: &str) -> Api<Lease> {
    Api::namespaced(client(url).await, &parameter(url, "namespace").expect("a namespace"))
}

/// Returns a Lease as a person creates it from a copy.
fn copy_of(lease: Lease) -> Lease {
    let Lease { metadata, spec } = lease;
    let ObjectMeta { name, annotations, labels, .. } = metadata;
    Lease { metadata: ObjectMeta { name, annotations, labels, ..ObjectMeta::default() }, spec }
}

/// Marks the default namespace's record as complete.
async fn complete(store: &Arc<dyn Store>) {
    let old = rows_record();
    let new = LayoutRecord { token: token(7), complete: vec!["0/0".to_owned()], ..old.clone() };
    assert!(store.swap_record("default", old.token, &new).await.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn leases_show_holders_and_ages() {
    let backend = Backend::kubernetes().await;
    let store = with_rows(&backend, &scope(1, 100)).await;
    let leases = leases(&backend.url()).await;
    assert_eq!(leases.list(&ListParams::default()).await.expect("Leases").items.len(), 1);
    let held = RowWrite { expiry: RowExpiry::After(Duration::from_millis(89_001)), ..write(1) };
    assert!(store.swap_row(&scope(1, 9), 5, birth(5), &held).await.expect("an answer"));
    let lease = leases.get("soc-raindrop-worker.default.0-0.5").await.expect("a Lease");
    let spec = lease.spec.expect("its spec");
    assert_eq!(spec.holder_identity.as_deref(), Some(&*held.holder));
    assert_eq!(spec.lease_duration_seconds, Some(90));
    assert!(spec.renew_time.is_some());
    // Only rows in use have Leases.
    let found = leases.list(&ListParams::default()).await.expect("Leases").items.len();
    assert_eq!(found, 2);
    assert!(store.swap_row(&scope(1, 9), 5, token(1), &release(2)).await.expect("an answer"));
    let lease = leases.get("soc-raindrop-worker.default.0-0.5").await.expect("a Lease");
    assert_eq!(lease.spec.and_then(|spec| spec.holder_identity), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn deleted_lease_is_a_row_that_vanished() {
    let backend = Backend::kubernetes().await;
    let (store, scope) = (with_rows(&backend, &scope(1, 3)).await, scope(1, 3));
    complete(&store).await;
    assert!(store.swap_row(&scope, 2, birth(2), &write(1)).await.expect("an answer"));
    let leases = leases(&backend.url()).await;
    let name = "soc-raindrop-worker.default.0-0.2";
    let copy = leases.get(name).await.expect("a Lease");
    leases.delete(name, &DeleteParams::default()).await.expect("deleted");

    let other = backend.unprepared().await;
    for store in [&store, &other] {
        assert_eq!(store.read_row(&scope, 2).await.expect("an answer"), None);
        assert!(!store.swap_row(&scope, 2, token(1), &write(2)).await.expect("an answer"));
        assert_eq!(store.survey(&scope).await.expect("a survey").free, 2);
    }
    // A copy that a person creates again is no row either.
    leases.create(&PostParams::default(), &copy_of(copy)).await.expect("created");
    for store in [&store, &other] {
        assert_eq!(store.read_row(&scope, 2).await.expect("an answer"), None);
        assert!(!store.swap_row(&scope, 2, token(1), &write(3)).await.expect("an answer"));
    }

    // The row is created again with the given marks.
    let marks = HighWaterMarks::all_at(77, 2);
    let new = NewRows { seed: token(0xb2 << 120), ..new_rows(&marks, token(7)) };
    assert!(other.create_rows(&scope, &new).await.expect("an answer"));
    for store in [&store, &other] {
        let row = store.read_row(&scope, 2).await.expect("an answer").expect("the row");
        assert_eq!((row.token, row.marks), (new.token(2), marks.clone()));
    }
    assert!(store.swap_row(&scope, 2, new.token(2), &write(4)).await.expect("an answer"));
    assert!(other.swap_row(&scope, 2, token(4), &write(5)).await.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn labels_that_a_person_changed_hide_nothing() {
    let backend = Backend::kubernetes().await;
    let (store, scope) = (with_rows(&backend, &scope(1, 3)).await, scope(1, 3));
    complete(&store).await;
    let held = RowWrite { expiry: RowExpiry::After(PATIENCE), ..write(1) };
    assert!(store.swap_row(&scope, 2, birth(2), &held).await.expect("an answer"));
    let leases = leases(&backend.url()).await;
    for name in ["soc-raindrop-worker.default.0-0.2", "soc-raindrop-worker-layout.default"] {
        let before = leases.get(name).await.expect("a Lease").metadata.labels;
        for labels in [Value::Null, json!({ "raindrop/table": "other" })] {
            let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
            let change = async || {
                let changed = leases.patch(name, &PatchParams::default(), &patch).await;
                assert_ne!(changed.expect("a patch").metadata.labels, before);
            };
            change().await;
            let unreleased = store.unreleased_rows("default", 9).await.expect("rows");
            assert_eq!(unreleased.len(), 1, "{name} {labels}");
            let after = leases.get(name).await.expect("a Lease").metadata.labels;
            assert_eq!(after, before, "it has its labels again");
            change().await;
            assert_eq!(store.survey(&scope).await.expect("a survey").held, 1, "{name} {labels}");
            let after = leases.get(name).await.expect("a Lease").metadata.labels;
            assert_eq!(after, before, "it has its labels again");
        }
    }
}

/// A list lacks the settings; the code must not be taken for one that no operator manages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn settings_without_labels_are_read_by_the_name_of_their_code() {
    let backend = Backend::kubernetes().await;
    let store = backend.store().await;
    let (code, settings) = ("order".to_owned(), "increment=2".to_owned());
    let code = ManagedCode { code, settings, token: token(1) };
    assert!(store.write_managed_code("default", None, &code).await.expect("an answer"));
    let patch = Patch::Merge(json!({ "metadata": { "labels": null } }));
    let name = "soc-raindrop-segment-settings.default.order";
    let leases = leases(&backend.url()).await;
    leases.patch(name, &PatchParams::default(), &patch).await.expect("a patch");
    let listed = async || store.list_managed_codes("default").await.expect("a list");
    assert_eq!(listed().await, []);
    let found = store.managed_code("default", "order").await.expect("an answer");
    assert_eq!(found.as_ref(), Some(&code));
    assert_eq!(listed().await, [code], "it has its labels again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn rows_of_a_lost_record_are_not_created_anew() {
    let backend = Backend::kubernetes().await;
    let (store, scope) = (with_rows(&backend, &scope(1, 3)).await, scope(1, 3));
    assert!(store.swap_row(&scope, 2, birth(2), &write(1)).await.expect("an answer"));
    let leases = leases(&backend.url()).await;
    let name = "soc-raindrop-worker-layout.default";
    leases.delete(name, &DeleteParams::default()).await.expect("deleted");
    let survey = store.survey(&scope).await.expect("a survey");
    assert_eq!((survey.record, survey.held + survey.free), (None, 1));
    // A new record would give the remaining row this layout.
    let settings = KeeperSettings::new(Preset::Raindrop.layout(), "operator");
    let mut operator = Operator::new(settings, store.clone(), Arc::new(SystemClock::default()));
    let refused = operator.raise(Duration::from_mins(5)).await;
    assert!(matches!(refused, Err(OperatorError::NoRecord { .. })), "{refused:?}");
    let error = create_rows(&store, &scope, &HighWaterMarks::all_at(0, 2)).await;
    let error = error.expect_err("its marks are not known").to_string();
    assert!(error.contains("soc-raindrop-worker.default.0-0.2"), "{error}");
}

/// The new record begins an epoch, so that all leases begin at its barrier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn record_that_is_written_again_lists_the_rows_that_are_there() {
    let backend = Backend::kubernetes().await;
    let (store, scope) = (with_rows(&backend, &scope(1, 3)).await, scope(1, 3));
    for worker in [1, 2] {
        let held = write(10 + u128::from(worker));
        assert!(store.swap_row(&scope, worker, birth(worker), &held).await.expect("an answer"));
    }
    let leases = leases(&backend.url()).await;
    let name = "soc-raindrop-worker-layout.default";
    leases.delete(name, &DeleteParams::default()).await.expect("deleted");
    let before = rows_record();
    let history = before.history.next("", token(8), EpochClocks::of_store(1), NodeTimes::default());
    let again = LayoutRecord { token: token(7), history, ..before };
    store.create_record("default", &again).await.expect("created");
    let other = backend.unprepared().await;
    let new = new_rows(&HighWaterMarks::all_at(0, 2), token(7));
    assert!(other.create_rows(&crate::backend::scope(3, 3), &new).await.expect("an answer"));
    let survey = other.survey(&scope).await.expect("a survey");
    assert_eq!((survey.held, survey.free), (2, 1));
    for (worker, store) in [(1, &store), (2, &other)] {
        let row = store.read_row(&scope, worker).await.expect("an answer").expect("the row");
        assert_eq!(row.token, token(10 + u128::from(worker)));
        let write = RowWrite { epoch: token(8), ..write(20 + u128::from(worker)) };
        assert!(store.swap_row(&scope, worker, row.token, &write).await.expect("an answer"));
    }
    let row = other.read_row(&scope, 3).await.expect("an answer").expect("the row");
    assert_eq!(row.token, new.token(3));
}

/// A record from a backup does not know that a row was created since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn restored_record_makes_no_used_row_fresh() {
    let backend = Backend::kubernetes().await;
    let (store, scope) = (with_rows(&backend, &scope(1, 3)).await, scope(1, 3));
    complete(&store).await;
    let leases = leases(&backend.url()).await;
    let (record, row) = ("soc-raindrop-worker-layout.default", "soc-raindrop-worker.default.0-0.2");
    let backup = leases.get(record).await.expect("a Lease");
    assert!(store.swap_row(&scope, 2, birth(2), &write(1)).await.expect("an answer"));

    leases.delete(record, &DeleteParams::default()).await.expect("deleted");
    leases.create(&PostParams::default(), &copy_of(backup)).await.expect("restored");
    let other = backend.unprepared().await;
    assert_eq!(workers(&other.free_rows(&scope, None, 9).await.expect("rows")), [1, 3]);
    let error = other.swap_row(&scope, 2, birth(2), &write(2)).await.expect_err("it was used");
    assert!(error.to_string().contains(row), "{error}");
    leases.get(row).await.expect("the Lease is still there");
    // The steps that the error names.
    leases.delete(row, &DeleteParams::default()).await.expect("deleted");
    assert!(other.swap_row(&scope, 2, birth(2), &write(3)).await.expect("an answer"));
}

/// Returns settings of a service account with the rights that the chart gives, and its kubeconfig's
/// token file.
async fn with_an_account(url: &str, name: &str) -> (tempfile::TempDir, String) {
    let (client, namespace) =
        (client(url).await, parameter(url, "namespace").expect("a namespace"));
    let rule = json!([{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                        "verbs": ["get", "list", "create", "patch", "delete"] }]);
    let account: ServiceAccount = object(json!({ "metadata": { "name": name } }));
    Api::namespaced(client.clone(), &namespace)
        .create(&PostParams::default(), &account)
        .await
        .expect("an account");
    let role: Role = object(json!({ "metadata": { "name": name }, "rules": rule }));
    Api::namespaced(client.clone(), &namespace)
        .create(&PostParams::default(), &role)
        .await
        .expect("a role");
    let binding: RoleBinding = object(json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": namespace }],
    }));
    Api::namespaced(client, &namespace)
        .create(&PostParams::default(), &binding)
        .await
        .expect("a binding");
    let folder = tempfile::tempdir().expect("a temporary folder");
    renew_token(url, name, folder.path()).await;
    let kubeconfig = parameter(url, "kubeconfig").expect("a kubeconfig");
    let text = fs::read_to_string(&kubeconfig).expect("a kubeconfig");
    let (before, rest) = text.split_once("token: ").expect("a token");
    let (_, after) = rest.split_once('}').expect("its end");
    let file = folder.path().join("token").display().to_string();
    let own = folder.path().join("kubeconfig");
    fs::write(&own, format!("{before}tokenFile: {file}}}{after}")).expect("a file");
    let url = url.replace(&kubeconfig, &own.display().to_string());
    (folder, url)
}

fn object<T: DeserializeOwned>(fields: Value) -> T {
    from_value(fields).expect("an object of its kind")
}

/// Writes a fresh token of the account to its file.
async fn renew_token(url: &str, name: &str, folder: &Path) {
    let namespace = parameter(url, "namespace").expect("a namespace");
    let accounts: Api<ServiceAccount> = Api::namespaced(client(url).await, &namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(600),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
    let token = answer.expect("a token").status.and_then(|status| status.token);
    fs::write(folder.join("token"), token.expect("a token")).expect("a file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn revoked_token_is_reread() {
    let backend = Backend::kubernetes().await;
    let admin = backend.url();
    let (folder, url) = with_an_account(&admin, "raindrop").await;
    // The permissions suffice for everything.
    let store = open(&patient(&url)).await;
    poll::until(PATIENCE, "the permissions count", async || store.prepare().await.ok()).await;
    create_rows(&store, &scope(1, 3), &HighWaterMarks::all_at(0, 2)).await.expect("rows");
    assert!(store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect("an answer"));
    store
        .create_segments("default", &[NewSegment { code: "order".to_owned(), first: 1 }])
        .await
        .expect("a code");

    let namespace = parameter(&admin, "namespace").expect("a namespace");
    let accounts: Api<ServiceAccount> = Api::namespaced(client(&admin).await, &namespace);
    accounts.delete("raindrop", &DeleteParams::default()).await.expect("deleted");
    let error = poll::until(PATIENCE, "the token is refused", async || {
        store.read_row(&scope(1, 3), 1).await.err()
    })
    .await;
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    let again = object(json!({ "metadata": { "name": "raindrop" } }));
    accounts.create(&PostParams::default(), &again).await.expect("an account");
    renew_token(&admin, "raindrop", folder.path()).await;
    let row = poll::until(PATIENCE, "the new token is read", async || {
        store.read_row(&scope(1, 3), 1).await.ok().flatten()
    })
    .await;
    assert_eq!(row.token, token(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn account_without_permissions_is_refused_by_name() {
    let backend = Backend::kubernetes().await;
    let (folder, url) = with_an_account(&backend.url(), "poor").await;
    let namespace = parameter(&url, "namespace").expect("a namespace");
    let bindings: Api<RoleBinding> = Api::namespaced(client(&backend.url()).await, &namespace);
    bindings.delete("poor", &DeleteParams::default()).await.expect("deleted");
    let store = open(&patient(&url)).await;
    let error = poll::until(PATIENCE, "it may not", async || store.prepare().await.err()).await;
    let StoreError::Refused(reason) = error else { panic!("{error:?}") };
    let reason = reason.to_string();
    assert!(reason.contains("Forbidden") && reason.contains("poor"), "{reason}");
    drop(folder);
}

/// No power failure of etcd loses an acknowledged write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn etcd_that_is_killed_loses_nothing() {
    let server = Server::start(&Kubernetes).await;
    let backend = Backend::Kubernetes(server.database().await);
    let store = with_rows(&backend, &scope(1, 3)).await;
    let mut before = birth(1);
    for bits in 1..=3 {
        assert!(store.swap_row(&scope(1, 3), 1, before, &write(bits)).await.expect("an answer"));
        before = token(bits);
        server.backing().kill9();
        let hasty = {
            let mut settings = patient(backend.url());
            settings.timeout = Duration::from_secs(1);
            open(&settings).await
        };
        hasty.swap_row(&scope(1, 3), 1, before, &write(100 + bits)).await.expect_err("no etcd");
        server.backing().restart().await;
        let row = poll::until(PATIENCE, "it is found again", async || {
            store.read_row(&scope(1, 3), 1).await.ok().flatten()
        })
        .await;
        // A request that was sent meanwhile may still arrive.
        assert!([before, token(100 + bits)].contains(&row.token), "{row:?}");
        let next = token(200 + bits);
        poll::until(PATIENCE, "it is written again", async || {
            let row = store.read_row(&scope(1, 3), 1).await.ok().flatten()?;
            let swapped = store.swap_row(&scope(1, 3), 1, row.token, &write(200 + bits)).await;
            (row.token == next || swapped.is_ok_and(|swapped| swapped)).then_some(())
        })
        .await;
        before = next;
    }
}

/// Fifty nodes that start at once on an empty cluster get a worker each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn fifty_nodes_lease_a_worker_each() {
    let backend = Backend::kubernetes().await;
    let mut starting = JoinSet::new();
    for node in 0..50 {
        let store = backend.unprepared().await;
        starting.spawn(async move {
            let layout = Preset::Raindrop.layout();
            let settings = KeeperSettings::new(layout, format!("node-{node}"));
            let clock = Arc::new(SystemClock::default());
            let (keeper, issuer) = Keeper::start(settings, store, clock, Arc::new(NoObserver));
            issuer.leased().await;
            (keeper, issuer)
        });
    }
    let nodes = starting.join_all().await;
    let lease = |(_, issuer): &(Keeper, Issuer)| issuer.status().lease.expect("a lease").worker;
    let mut workers: Vec<u64> = nodes.iter().map(lease).collect();
    workers.sort_unstable();
    workers.dedup();
    assert_eq!(workers.len(), 50);
    for (keeper, _) in nodes {
        keeper.release(PATIENCE).await;
    }
}

/// The record alone, a row alone, and both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn leases_that_are_deleted_under_running_nodes_are_made_again() {
    let backend = Backend::kubernetes().await;
    let leases = leases(&backend.url()).await;
    let mut nodes = Vec::new();
    for node in 0..3 {
        let layout = Preset::Raindrop.layout();
        let mut settings = KeeperSettings::new(layout, format!("node-{node}"));
        let second = Duration::from_secs(1);
        settings.lease = LeaseTimes { renew: second, ..LeaseTimes::default() };
        let clock = Arc::new(SystemClock::default());
        let store = backend.unprepared().await;
        let (keeper, issuer) = Keeper::start(settings, store, clock, Arc::new(NoObserver));
        issuer.leased().await;
        nodes.push((keeper, issuer));
    }
    let mut issued = HashSet::new();
    let record = "soc-raindrop-worker-layout.default".to_owned();
    let row = |of: usize| {
        let worker = nodes[of].1.status().lease.expect("a lease").worker;
        format!("soc-raindrop-worker.default.0-0.{worker}")
    };
    for deleted in [vec![record.clone()], vec![row(0)], vec![record, row(0), row(1), row(2)]] {
        for name in &deleted {
            leases.delete(name, &DeleteParams::default()).await.expect("deleted");
        }
        for _ in 0..60 {
            for (_, issuer) in &nodes {
                let ids = issuer.next_ids("order", 100).await.expect("issued");
                assert!(ids.into_iter().all(|id| issued.insert(id)), "issued twice");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for (_, issuer) in &nodes {
            assert_eq!(issuer.status().reason, None, "{deleted:?}");
        }
        leases.get(&deleted[0]).await.expect("it is there again");
    }
    for (keeper, _) in nodes {
        keeper.release(PATIENCE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn deleted_code_is_missing() {
    let backend = Backend::kubernetes().await;
    let store = backend.store().await;
    store.create_record("numbers", &record(1, "numbers")).await.expect("a record");
    let (token, epoch) = (token(1), EPOCH);
    let (or_begin_at, row_epoch) = (Some(5), epoch);
    let reservation =
        Reservation { by: 10, step: 10, end: 1_000, token, or_begin_at, epoch, row_epoch };
    let reserved = store.reserve("numbers", "order", &reservation).await.expect("an answer");
    assert_eq!(reserved, Reserved::From(5));
    let name = "soc-raindrop-segment.numbers.order";
    leases(&backend.url()).await.delete(name, &DeleteParams::default()).await.expect("deleted");
    let reservation = Reservation { or_begin_at: None, ..reservation };
    let reserved = store.reserve("numbers", "order", &reservation).await.expect("an answer");
    assert_eq!(reserved, Reserved::NoSuchCode);
}
