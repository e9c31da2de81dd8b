//! Databases that fail over to a replica that lacks the last writes, and back again.

mod fleet;
mod late_write;
mod lost_lease;
mod report;

use crate::support::{mariadb::Mariadb, mysql::Mysql, postgres::Postgres, redis::Redis};

/// Runs every case on every engine that has asynchronous replicas.
macro_rules! on_every_pair {
    ($attributes:tt $($module:ident::$case:ident)*) => {
        $(
            mod $case {
                on_every_pair!(@ mariadb Mariadb $attributes $module $case);
                on_every_pair!(@ mysql Mysql [ignore = "make mysql-test"] $module $case);
                on_every_pair!(@ postgres Postgres $attributes $module $case);
                on_every_pair!(@ redis Redis $attributes $module $case);
            }
        )*
    };
    (@ $name:ident $engine:ident [$($attribute:meta)?] $module:ident $case:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$attribute])?
        async fn $name() {
            super::$module::$case(&super::$engine).await;
        }
    };
}

on_every_pair! { []
    lost_lease::paused_holder_of_a_kept_lease
    fleet::fleet_under_load
    lost_lease::paused_holder_of_a_lost_lease
    lost_lease::running_holder_of_a_lost_lease
    lost_lease::holder_of_a_lease_lost_in_time
    late_write::late_write_after_fail_over
    late_write::late_write_after_fail_back
}
