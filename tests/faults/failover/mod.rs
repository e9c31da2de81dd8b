//! Databases that fail over to a replica that lacks the last writes, and back again.

mod fleet;
mod late_write;
mod lost_lease;
mod report;
mod segments;
mod series;

/// Runs a case on every engine that has asynchronous replicas.
macro_rules! on_every_pair {
    // At the same time: such a case mostly waits.
    (together: $module:ident::$case:ident) => {
        mod $case {
            use crate::support::{mariadb::Mariadb, postgres::Postgres, redis::Redis};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mariadb_postgres_and_redis() {
                let case = super::$module::$case;
                tokio::join!(case(&Mariadb), case(&Postgres), case(&Redis));
            }
            on_every_pair!(@ mysql Mysql [ignore = "make mysql-test"] $module $case);
        }
    };
    (each: $module:ident::$case:ident) => {
        mod $case {
            on_every_pair!(@ mariadb Mariadb [] $module $case);
            on_every_pair!(@ mysql Mysql [ignore = "make mysql-test"] $module $case);
            on_every_pair!(@ postgres Postgres [] $module $case);
            on_every_pair!(@ redis Redis [] $module $case);
        }
    };
    (@ $name:ident $engine:ident [$($attribute:meta)?] $module:ident $case:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$attribute])?
        async fn $name() {
            super::$module::$case(&crate::support::$name::$engine).await;
        }
    };
}

on_every_pair! { each: fleet::fleet_under_load }
on_every_pair! { together: late_write::late_writes }
on_every_pair! { together: lost_lease::lost_leases }
on_every_pair! { together: lost_lease::holder_of_a_lease_lost_in_time }
on_every_pair! { together: segments::segments_and_backfill }
on_every_pair! { together: series::lost_members }
