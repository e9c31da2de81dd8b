//! Injects faults of the database and of the connections to it.

use std::time::Duration;

use reqwest::StatusCode;
use tokio::time::{Instant, sleep};

use crate::{
    cluster::{Cluster, Member, PROXIED, Struck, TTL},
    service::PATIENCE,
    support::{poll, proxy::Fault},
};

/// Longer than the ttl, and shorter than leases reach.
const OUTAGE: Duration = TTL.saturating_add(Duration::from_secs(1));
const CUTS: usize = 10;
/// The longest time before a fault: renewals come every second.
const MOMENT: Duration = Duration::from_secs(1);

/// Ends the database as a power failure would, and starts it again.
pub(super) async fn killed(cluster: &mut Cluster) -> Struck {
    sleep(cluster.moment(MOMENT)).await;
    cluster.server.kill9();
    sleep(OUTAGE).await;
    cluster.server.restart().await;
    everybody(cluster).await
}

pub(super) async fn restarted(cluster: &mut Cluster) -> Struck {
    sleep(cluster.moment(MOMENT)).await;
    cluster.server.stop();
    sleep(OUTAGE).await;
    cluster.server.restart().await;
    everybody(cluster).await
}

/// Freezes the database: it accepts connections and answers nothing, and handles its requests after
/// the thaw.
pub(super) async fn frozen(cluster: &mut Cluster) -> Struck {
    sleep(cluster.moment(MOMENT)).await;
    cluster.server.freeze();
    sleep(OUTAGE).await;
    cluster.server.thaw();
    everybody(cluster).await
}

/// Keeps the database away until no process has any range left.
pub(super) async fn away(cluster: &mut Cluster) -> Struck {
    cluster.server.kill9();
    for member in &cluster.members {
        poll::until(PATIENCE, "every range is used up", async || {
            let (status, problem) = member.service.json("/id/order").await;
            if status == StatusCode::OK {
                return None;
            }
            assert_eq!(problem["code"], "store_unavailable", "{problem}");
            let ready = member.service.get("/readyz").await.expect("an answer").status();
            assert_eq!(ready, StatusCode::SERVICE_UNAVAILABLE);
            Some(())
        })
        .await;
    }
    assert!(cluster.load.figures().refused > 0, "the clients were told");
    cluster.server.restart().await;
    let back = Instant::now();
    let struck = everybody(cluster).await;
    println!("renewed within {:.1} s of the database's return", back.elapsed().as_secs_f64());
    struck
}

/// Cuts every connection through the proxy at random moments, whatever is under way.
pub(super) async fn cut(cluster: &mut Cluster) -> Struck {
    for _ in 0..CUTS {
        sleep(cluster.moment(MOMENT)).await;
        cluster.proxy.cut();
    }
    cluster.until_renewed().await;
    let victims = PROXIED.map(|index| cluster.members[index].home.clone());
    Struck { times: CUTS, victims: victims.into() }
}

/// Lets three renewals fail: the answer to one is cut off, that to another never comes, and one
/// renewal arrives after its sender gave up and sent another.
pub(super) async fn lost_and_late(cluster: &mut Cluster) -> Struck {
    let faults = [Fault::CutReplies, Fault::SwallowReplies, Fault::Hold];
    let victim = cluster.any(PROXIED);
    let victim = &cluster.members[victim];
    for fault in faults {
        unknown(cluster, victim, fault).await;
    }
    let answered = cluster.proxy.count_answered();
    cluster.proxy.release();
    cluster.proxy.answered(answered + 1).await;
    Struck { times: faults.len(), victims: vec![victim.home.clone()] }
}

/// Lets the next write of a process fail; the process must find out its outcome.
async fn unknown(cluster: &Cluster, member: &Member, fault: Fault) {
    let (unknown, done) = (member.renewals("unknown").await, member.renewals("done").await);
    cluster.proxy.fail(&member.holder, fault);
    member.until_renewals("unknown", unknown).await;
    member.until_renewals("done", done).await;
}

/// Waits until all members, which are all victims, have renewed their leases after the fault.
async fn everybody(cluster: &Cluster) -> Struck {
    cluster.until_renewed().await;
    Struck { times: 1, victims: cluster.all() }
}
