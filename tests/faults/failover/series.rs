//! Creates members of a series while the database fails over and back, and loses their rows both
//! times: no member may begin again at its start.

use std::collections::BTreeSet;

use reqwest::StatusCode;
use serde_json::Value;

use crate::{
    service::{PATIENCE, Service, Setup, client},
    support::{
        pair::{Pair, Replicated},
        poll,
    },
};

/// More numbers of a member than one fail-over loses here.
const GAP: u64 = 1_000;
const CONFIG: &str = "[namespaces.numbers]\nmode = 'segment'\n\
                      [[code]]\nname = 'invoice:*'\nnamespace = 'numbers'\nstrict = true\n\
                      text = 'INV-{*}-{n}'\nfailover_gap = 1000\n\
                      [[code]]\nname = 'order:*'\nnamespace = 'numbers'\n\
                      text = 'ORD-{*}-{n}'\nfailover_gap = 1000\nmin_step = 10\nmax_step = 20\n";
const SERIES: [&str; 2] = ["invoice", "order"];

pub(super) async fn lost_members(engine: &'static dyn Replicated) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("raindrop.toml");
    std::fs::write(&file, CONFIG).expect("written");
    let mut pair = Pair::start(engine).await;
    let setup = Setup::new()
        .config_file(&file)
        .set("store.url", pair.url())
        .set("store.timeout", "1s")
        .set("lease.window", "3s")
        .set("lease.ttl", "3s")
        .set("lease.renew", "1s")
        .set("lease.max_clock_skew", "500ms");
    let node = setup.clone().start_leased().await;
    let (mut texts, mut count) = (BTreeSet::new(), 0);
    let mut issue = async |node: &Service, member: &str| {
        let text = text(node, member).await;
        count += 1;
        assert!(texts.insert(text.clone()), "{text} was issued twice");
        let (_, number) = text.rsplit_once('-').expect("a text of the form");
        number.parse::<u64>().expect("a number")
    };
    for series in SERIES {
        assert_eq!(issue(&node, &format!("{series}:kept")).await, 1);
    }
    pair.until_caught_up().await;
    for round in 0..2_u64 {
        pair.stop_replication().await;
        // The row of each is lost. Nobody but the first node asks for the second one afterwards.
        let lost = ["lost", "alone"].map(|name| format!("{name}{round}"));
        for series in SERIES {
            for member in &lost {
                for _ in 0..3 {
                    issue(&node, &format!("{series}:{member}")).await;
                }
            }
        }
        pair.kill_primary();
        pair.promote().await;
        let stranger = setup.clone().start().await;
        for series in SERIES {
            for member in [&lost[0], &format!("new{round}"), "kept"] {
                let first = issue(&stranger, &format!("{series}:{member}")).await;
                assert!(first > (round + 1) * GAP, "{series}:{member} begins at {first}");
            }
            for member in &lost {
                for _ in 0..3 {
                    let number = issue(&node, &format!("{series}:{member}")).await;
                    // Plain numbers of the last block may still be issued for a while.
                    let is_above = number > (round + 1) * GAP || series == "order";
                    assert!(is_above, "{series}:{member} goes on at {number}");
                }
            }
        }
        pair.rejoin().await;
    }
    println!("{} · members lost in two fail-overs · {count} texts, 0 equal ones", engine.name());
}

/// Returns the next text of a member, as soon as the node has one.
async fn text(node: &Service, member: &str) -> String {
    poll::until(PATIENCE, "a node issues a text", async || {
        let answer = client().post(node.url(&format!("/id/{member}"))).send().await.ok()?;
        let status = answer.status();
        let body: Value = answer.json().await.ok()?;
        (status == StatusCode::OK).then(|| body["id"].as_str().expect("a text").to_owned())
    })
    .await
}
