//! Checks whether the server keeps the writes that it acknowledges.
//!
//! Refused are servers that would delete rows when their memory is full, clusters, and versions
//! without the commands of the scripts. Settings that only make a crash or fail-over lose writes
//! cause a warning: with `store.failover = "auto"`, the identity of the server detects such a loss.
//! A setting that the user may not read causes a warning, too. The check runs when the store is
//! prepared, not later. Tests: below, and tests/store/redis.rs.

use std::collections::HashMap;

use super::RedisStore;
use crate::{LOSES_WRITES, Result, StoreError};

/// Refuses servers that delete rows or lack commands. Returns warnings about other settings.
pub(super) async fn check(store: &RedisStore) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    match store.command_if_allowed::<String>(&["INFO"]).await? {
        Some(info) => check_info(&info, &mut warnings)?,
        None => warnings.push(
            "the server does not report its version, because INFO is not allowed: it must be Redis \
             6.2 or newer, and no cluster"
                .to_owned(),
        ),
    }
    for (setting, wanted) in
        [("maxmemory-policy", "noeviction"), ("appendonly", "yes"), ("appendfsync", "always")]
    {
        let found: Option<HashMap<String, String>> =
            store.command_if_allowed(&["CONFIG", "GET", setting]).await?;
        let value = found.as_ref().and_then(|found| found.get(setting));
        warnings.extend(check_setting(setting, wanted, value.map(String::as_str))?);
    }
    Ok(warnings)
}

fn check_info(info: &str, warnings: &mut Vec<String>) -> Result<()> {
    let found: HashMap<&str, &str> =
        info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let value = |name: &str| found.get(name).copied().unwrap_or_default();
    let version = value("redis_version");
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < (6, 2) {
        return Err(StoreError::Unusable(format!(
            "the store is Redis {version}: 6.2 is the oldest that can be used"
        )));
    }
    if value("cluster_enabled") == "1" || value("redis_mode") == "cluster" {
        return Err(StoreError::Unusable(
            "the store is a Redis cluster, in which no script reaches all keys: use one primary, \
             with replicas and Sentinel if you like"
                .to_owned(),
        ));
    }
    if !["", "0"].contains(&value("connected_slaves")) {
        warnings.push(format!("the store has replicas: a fail-over to one of them {LOSES_WRITES}"));
    }
    Ok(())
}

fn check_setting(setting: &str, wanted: &str, value: Option<&str>) -> Result<Option<String>> {
    match value {
        Some(value) if value == wanted => Ok(None),
        Some(value) if setting == "maxmemory-policy" => Err(StoreError::Unusable(format!(
            "{setting} is {value}, not {wanted}: the store would delete rows when its memory is \
             full, and IDs would be issued twice"
        ))),
        Some(value) => {
            Ok(Some(format!("{setting} is {value}, not {wanted}: the store {LOSES_WRITES}")))
        }
        None => Ok(Some(format!(
            "the store does not report its {setting}: unless it is {wanted}, it {LOSES_WRITES}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\
                        role:master\r\nconnected_slaves:0\r\ncluster_enabled:0\r\n";

    fn said(info: &str) -> Result<Vec<String>, String> {
        let mut warnings = Vec::new();
        check_info(info, &mut warnings).map_err(|error| error.to_string())?;
        Ok(warnings)
    }

    #[test]
    fn one_recent_primary_is_trusted() {
        assert_eq!(said(GOOD), Ok(Vec::new()));
        assert_eq!(said(&GOOD.replace("7.0.15", "6.2.0")), Ok(Vec::new()));
        let warned = said(&GOOD.replace("slaves:0", "slaves:1")).expect("a warning");
        assert!(warned[0].contains("has replicas"), "{warned:?}");
        for (from, to, reason) in [
            ("7.0.15", "6.0.16", "is Redis 6.0.16"),
            ("7.0.15", "5.9", "is Redis 5.9"),
            ("standalone", "cluster", "is a Redis cluster"),
            ("cluster_enabled:0", "cluster_enabled:1", "is a Redis cluster"),
        ] {
            let refused = said(&GOOD.replace(from, to)).expect_err("refused");
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn settings_are_judged() {
        let check = |setting, wanted, value| check_setting(setting, wanted, value);
        assert!(matches!(check("appendonly", "yes", Some("yes")), Ok(None)));
        assert!(matches!(check("appendonly", "yes", Some("no")), Ok(Some(_))));
        assert!(matches!(check("maxmemory-policy", "noeviction", None), Ok(Some(_))));
        let refused = check("maxmemory-policy", "noeviction", Some("allkeys-lru"));
        assert!(refused.is_err_and(|error| error.is_permanent()));
    }
}
