//! `/plan`.

use std::sync::Arc;

use raindrop::{core::clock::SystemClock, store::MemoryStore};

use crate::support::{World, config_of};

#[tokio::test]
async fn the_configured_layout_is_planned_without_parameters() {
    let world = World::start(&[("layout.preset", "js-safe"), ("worker.min_id", "4")]).await;
    let plan = world.get("/plan").await.json();
    assert_eq!((&plan["preset"], &plan["nodes"]), (&"js-safe".into(), &28.into()));
    assert_eq!(plan["toml"], "[layout]\npreset = \"js-safe\"\n");
    // With parameters, the configured layout does not count.
    let plan = world.get("/plan?rollback_bits=1").await.json();
    assert_eq!((&plan["preset"], &plan["nodes"]), (&serde_json::Value::Null, &511.into()));
}

#[tokio::test]
async fn parameters_set_what_their_keys_set() {
    let world = World::start(&[]).await;
    let plan = world.get("/plan?preset=twitter&data_center=3&epoch=2026-01-01T00:00:00Z").await;
    assert_eq!(
        plan.json()["toml"],
        "[layout]\npreset = \"twitter\"\nepoch = \"2026-01-01T00:00:00Z\"\ndata_center = 3\n"
    );
    let uri = "/plan?time_unit=hour&timestamp_bits=20&data_center_bits=1&worker_bits=4&\
               rollback_bits=2&rollback_initial=3&reserved_bits=2&reserved_value=1&\
               min_sequence=5&max_sequence=99&epoch=2026-01-01T00:30:00Z";
    let plan = world.get(uri).await.json();
    assert_eq!((&plan["time_unit"], &plan["ids_per_tick"]), (&"hour".into(), &95.into()));
    assert_eq!(
        plan["toml"],
        "[layout]\ntime_unit = \"hour\"\nepoch = \"2026-01-01T00:00:00Z\"\ntimestamp_bits = 20\n\
         data_center_bits = 1\nworker_bits = 4\nrollback_bits = 2\nreserved_bits = 2\n\
         min_sequence = 5\nmax_sequence = 99\nrollback_initial = 3\nreserved_value = 1\n"
    );
}

#[tokio::test]
async fn bad_settings_are_reported_all_at_once() {
    let world = World::start(&[]).await;
    let long = format!("/plan?epoch={}", "2".repeat(65));
    for (uri, said) in [
        (
            "/plan?worker_bits=2&timestamp_bits=40",
            "layout.timestamp_bits = 40 (timestamp_bits): must be 41 to 55 with time_unit \
             millisecond\nlayout.worker_bits = 2 (worker_bits): must be 3 to 16",
        ),
        ("/plan?preset=node&worker_bits=5", "worker_bits = 5 (worker_bits): must be left out"),
        ("/plan?preset=other", "must be one of raindrop, js-safe"),
        ("/plan?preset=", "layout.preset = nothing (preset)"),
        ("/plan?epoch=today", "must be an RFC 3339 instant"),
        ("/plan?data_center=1", "must be 0 to 0 (0 bits)"),
        ("/plan?window=5m", "unknown parameter \"window\""),
        ("/plan?preset=node&preset=node", "more than once"),
        (&long, "epoch: must be at most 64 bytes long"),
    ] {
        let detail = world.get(uri).await.problem(400, "invalid_parameter");
        assert!(detail.contains(said), "{uri}: {detail}");
    }
}

#[tokio::test]
async fn plan_of_a_segment_namespace_is_404_without_parameters() {
    // The test's service needs one namespace that leases; `default` is the first.
    let text = "mode = 'segment'\nstore.url = 'sqlite:x'\n[[code]]\nname = 'order'\n\
                [namespaces.web.layout]\npreset = 'js-safe'\n";
    let clock = Arc::new(SystemClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let world = World::with_config(config_of(text), store, clock);
    let detail = world.get("/plan").await.problem(404, "not_found");
    assert!(detail.contains("?preset=raindrop"), "{detail}");
    assert_eq!(world.get("/plan?preset=node").await.status, 200);
}
