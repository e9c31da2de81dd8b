//! Faults of the database and of the way to it.

use std::{sync::Arc, time::Duration};

use reqwest::StatusCode;
use tokio::time::sleep;

use crate::{
    cluster::{Cluster, Member, PATIENCE, Struck, TTL},
    load::Home,
    support::{poll, proxy::Fault},
};

/// Longer than the ttl, and shorter than leases reach.
const OUTAGE: Duration = TTL.saturating_add(Duration::from_secs(1));
const CUTS: usize = 10;
/// The longest time before a fault: renewals come every second.
const MOMENT: Duration = Duration::from_secs(1);

/// Ended as a power failure would, and started again.
pub(super) async fn killed(cluster: &mut Cluster) -> Struck {
    sleep(cluster.moment(MOMENT)).await;
    cluster.server.kill9();
    sleep(OUTAGE).await;
    cluster.server.restart().await;
    struck(cluster, 1).await
}

pub(super) async fn restarted(cluster: &mut Cluster) -> Struck {
    sleep(cluster.moment(MOMENT)).await;
    cluster.server.stop();
    sleep(OUTAGE).await;
    cluster.server.restart().await;
    struck(cluster, 1).await
}

/// It accepts connections and answers nothing; what it was sent meanwhile it does afterwards.
pub(super) async fn frozen(cluster: &mut Cluster) -> Struck {
    sleep(cluster.moment(MOMENT)).await;
    cluster.server.freeze();
    sleep(OUTAGE).await;
    cluster.server.thaw();
    struck(cluster, 1).await
}

/// Until no process has any range left.
pub(super) async fn away(cluster: &mut Cluster) -> Struck {
    cluster.server.kill9();
    for member in &cluster.members {
        poll::until(PATIENCE, "every range is used up", async || {
            let (status, problem) = member.service.json("/id/order").await;
            if status == StatusCode::OK {
                return None;
            }
            assert_eq!(problem["code"], "store_unavailable", "{problem}");
            Some(())
        })
        .await;
    }
    assert!(cluster.load.figures().refused > 0, "the clients were told");
    cluster.server.restart().await;
    struck(cluster, 1).await
}

/// Every connection through the proxy is cut at random moments, whatever is under way.
pub(super) async fn cut(cluster: &mut Cluster) -> Struck {
    for _ in 0..CUTS {
        sleep(cluster.moment(MOMENT)).await;
        cluster.proxy.cut();
    }
    let struck = struck(cluster, CUTS).await;
    Struck { victims: homes(cluster), ..struck }
}

/// A renewal whose answer is cut off, one whose answer never comes, and one that arrives after
/// its sender gave up and sent another.
pub(super) async fn lost_and_late(cluster: &mut Cluster) -> Struck {
    let mut late = 0;
    for member in cluster.proxied() {
        for fault in [Fault::CutReplies, Fault::SwallowReplies, Fault::Hold] {
            unknown(cluster, member, fault).await;
        }
        cluster.proxy.release();
        late += 3;
        cluster.proxy.answered(late).await;
    }
    let struck = struck(cluster, late as usize).await;
    Struck { victims: homes(cluster), ..struck }
}

/// The next write of a process does not end well, and the process finds out what became of it.
async fn unknown(cluster: &Cluster, member: &Member, fault: Fault) {
    let (unknown, done) = (member.renewals("unknown").await, member.renewals("done").await);
    cluster.proxy.fail(&member.holder, fault);
    member.until_renewals("unknown", unknown).await;
    member.until_renewals("done", done).await;
}

async fn struck(cluster: &Cluster, times: usize) -> Struck {
    cluster.until_renewed().await;
    Struck { times, victims: cluster.all() }
}

fn homes(cluster: &Cluster) -> Vec<Arc<Home>> {
    cluster.proxied().map(|member| member.home.clone()).collect()
}
