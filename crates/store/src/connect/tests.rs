//! Addresses and settings that are accepted, refused and shown.

use super::*;

fn refusal(url: &str) -> String {
    let clock = Arc::new(ManualClock::new(0));
    let error = connect(&StoreSettings::new(url), clock).expect_err("unusable");
    assert!(error.is_permanent());
    error.to_string()
}

#[test]
fn table_names_are_plain() {
    for name in ["soc_raindrop_worker", "_", "T1", &"a".repeat(48)] {
        assert!(is_valid_table_name(name), "{name:?}");
    }
    for name in ["", "1a", "a b", "a.b", "a`b", "a\"b", "a-b", "\u{e9}", &"a".repeat(49)] {
        assert!(!is_valid_table_name(name), "{name:?}");
    }
}

#[test]
fn debug_output_shows_no_password() {
    let settings = StoreSettings::new("mysql://u:secret@host/db?password=secret");
    assert!(!format!("{settings:?}").contains("secret"), "{settings:?}");
}

#[test]
fn memory_is_a_store_with_the_clock_that_it_is_given() {
    let clock = Arc::new(ManualClock::new(7));
    let store = connect(&StoreSettings::new("memory:"), clock).expect("a store");
    assert!(store.clock_is_local());
}

#[test]
fn unusable_settings_are_refused() {
    for url in ["", "host/db", "oracle://u:secret@host/db", "memory:x", "mysql:"] {
        let said = refusal(url);
        assert!(said.contains("cannot be used"), "{url}: {said}");
        assert!(!said.contains("secret"), "{said}");
    }
    assert!(refusal("oracle://host/db").contains("it must begin with memory:"));
    let clock = Arc::new(ManualClock::new(0));
    for (worker_table, max_connections) in [("a b", 2), ("a", 0)] {
        let worker_table = worker_table.to_owned();
        let settings =
            StoreSettings { worker_table, max_connections, ..StoreSettings::new("memory:") };
        connect(&settings, clock.clone()).expect_err("unusable");
    }
}

#[cfg(all(feature = "mysql", feature = "postgres", feature = "redis"))]
#[test]
fn longest_call_grows_with_the_time_out() {
    for url in ["mysql://u@h/d", "postgres://u@h/d", "redis://h/0"] {
        let settings =
            StoreSettings { timeout: Duration::from_secs(10), ..StoreSettings::new(url) };
        let store = connect(&settings, Arc::new(ManualClock::new(0))).expect("a store");
        assert_eq!(store.longest_call(), Duration::from_secs(80), "{url}");
    }
}

#[cfg(all(feature = "mysql", feature = "postgres", feature = "redis"))]
#[test]
fn a_password_that_breaks_the_address_gets_a_hint_at_escaping() {
    for scheme in ["mysql", "postgres", "redis"] {
        for password in [
            "s3c#ret",
            "s3c/ret",
            "s3c?ret",
            "s3c/@ret",
            "s3c#r%et",
            "a?b=s3cret",
            // The text after the first @ would be looked up as a host.
            "a@s3c/ret",
            "a@s3c?ret",
            "a@s3c#ret",
            "a@s3c:1/ret",
        ] {
            let said = refusal(&format!("{scheme}://u:{password}@host/0"));
            let hints = ["# must be written as %23", "% as %25", "store.password_file"];
            assert!(hints.iter().all(|hint| said.contains(hint)), "{scheme} {password}: {said}");
            assert!(!said.contains("s3c") && !said.contains("ret@"), "{said}");
        }
        // The password is not the reason, so there is no hint about it.
        let said = refusal(&format!("{scheme}://u:s3c%23ret@host:port/0"));
        assert!(!said.contains("%25") && !said.contains("s3c"), "{said}");
    }
}

#[cfg(feature = "mysql")]
#[test]
fn mysql_address_without_a_database_is_refused() {
    assert!(refusal("mysql://u:secret@host").contains("it names no database"));
    assert!(refusal("mysql://u:secret@host:port/db").contains("invalid port"));
    for url in ["mysql://u:p@host/db?ssl-mode=VERIFY_CA", "mariadb://host/db"] {
        let clock = Arc::new(ManualClock::new(0));
        let store = connect(&StoreSettings::new(url), clock).expect("a store");
        assert!(!store.clock_is_local());
    }
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_address_without_a_database_is_refused() {
    assert!(refusal("postgres://u:secret@host").contains("it names no database"));
    let said = refusal("postgres://u:secret@host:port/db");
    assert!(said.contains("invalid port") && !said.contains("secret"), "{said}");
    for url in ["postgres://u:secret@host/db?sslmode=verify-full", "postgresql://host/db"] {
        let clock = Arc::new(ManualClock::new(0));
        let store = connect(&StoreSettings::new(url), clock).expect("a store");
        assert!(!store.clock_is_local());
        assert!(!format!("{store:?}").contains("secret"), "{store:?}");
    }
}

#[cfg(feature = "redis")]
#[test]
fn redis_address_without_a_host_is_refused() {
    for url in ["redis://", "redis://u:secret@host:port", "redis://u:secret@host/words"] {
        let said = refusal(url);
        assert!(said.contains("cannot be used") && !said.contains("secret"), "{said}");
    }
    for (url, is_verified) in [
        ("redis://host", false),
        ("rediss://u:secret@host:1/2", true),
        ("redis://:secret@localhost/0", true),
        ("redis://:secret@[::1]/0", true),
    ] {
        let clock = Arc::new(ManualClock::new(0));
        let store = connect(&StoreSettings::new(url), clock).expect("a store");
        assert!(!store.clock_is_local());
        assert_eq!(store.is_verified(), is_verified, "{url}");
        assert!(!format!("{store:?}").contains("secret"), "{store:?}");
    }
}

#[cfg(feature = "kubernetes")]
#[test]
fn kubernetes_address_is_a_scheme_with_parameters() {
    let place = "kubernetes:?namespace=ids&context=a%20b&kubeconfig=/etc/kubeconfig";
    for url in ["kubernetes:", "kubernetes:?", "kubernetes:?namespace=ids", place] {
        let store = connect(&StoreSettings::new(url), Arc::new(ManualClock::new(0)));
        let store = store.expect("a store");
        assert!(store.is_verified() && !store.clock_is_local());
    }
    for (url, reason) in [
        ("kubernetes://", "it must be kubernetes: alone"),
        ("kubernetes://host", "it must be kubernetes: alone"),
        ("kubernetes:ids", "it must be kubernetes: alone"),
        ("kubernetes:?namespace=", "its parameter namespace is empty"),
        ("kubernetes:?Namespace=ids", "it must be namespace"),
        ("kubernetes:?namespace=a&namespace=b", "given twice"),
        ("kubernetes:?sslmode=require", "known are context, kubeconfig, namespace"),
        ("kubernetes", "it must begin with memory:"),
    ] {
        let said = refusal(url);
        assert!(said.contains(reason), "{url}: {said}");
    }
    for (tls, ca_file) in [(Some(TlsMode::Off), None), (None, Some("ca.pem".into()))] {
        let settings =
            StoreSettings { tls, tls_ca_file: ca_file, ..StoreSettings::new("kubernetes:") };
        let said = check(&settings).expect_err("it brings its own authority").to_string();
        assert!(said.contains("store.tls"), "{said}");
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_address_must_name_a_writable_file() {
    for url in ["sqlite::memory:", "sqlite://:memory:", "sqlite://a.db?mode=memory"] {
        assert!(refusal(url).contains("use memory: instead"), "{url}");
    }
    for url in ["sqlite://", "sqlite:", "sqlite:///", "sqlite://?cache=shared"] {
        assert!(refusal(url).contains("it names no file"), "{url}");
    }
    for url in ["sqlite://a.db?mode=ro", "sqlite://a.db?cache=shared&immutable=1"] {
        assert!(refusal(url).contains("must be writable"), "{url}");
    }
    for url in ["sqlite://raindrop.db", "sqlite:raindrop.db", "sqlite:///data/a.db?mode=rwc"] {
        let clock = Arc::new(ManualClock::new(0));
        let store = connect(&StoreSettings::new(url), clock).expect("a store");
        assert!(store.clock_is_local());
    }
}

#[cfg(feature = "redis")]
#[test]
fn redis_password_is_sent_in_clear_text_only_with_tls_off() {
    use TlsMode::{Off, Prefer, Require, Verify};

    for (url, tls, expected) in [
        ("redis://:secret@host", None, Err("would send the password over the network")),
        ("redis://:secret@host", Some(Prefer), Err("would send the password over the network")),
        ("redis://:secret@host", Some(Off), Ok(false)),
        ("redis://host", Some(Verify), Err("it must begin with rediss://")),
        ("redis://localhost", Some(Require), Err("it must begin with rediss://")),
        ("rediss://:secret@host", Some(Verify), Ok(true)),
        ("rediss://:secret@host", Some(Require), Ok(false)),
        ("rediss://:secret@host", Some(Prefer), Err("must be \"verify\" or \"require\"")),
        ("rediss://:secret@host", Some(Off), Err("must be \"verify\" or \"require\"")),
        ("rediss://:secret@host/#insecure", None, Err("it has a fragment")),
        ("rediss://:secret@host/0?ssl_cert_reqs=none", None, Err("store.tls_ca_file choose TLS")),
    ] {
        let settings = StoreSettings { tls, ..StoreSettings::new(url) };
        let store = connect(&settings, Arc::new(ManualClock::new(0)));
        match (store, expected) {
            (Ok(store), Ok(is_verified)) => assert_eq!(store.is_verified(), is_verified, "{url}"),
            (Err(error), Err(expected)) => {
                let said = error.to_string();
                assert!(said.contains(expected) && !said.contains("secret"), "{url}: {said}");
            }
            (store, _) => panic!("{url}: {store:?}"),
        }
    }
}

#[cfg(all(feature = "mysql", feature = "postgres"))]
#[test]
fn only_verified_and_local_servers_count_as_verified() {
    for (url, is_verified) in [
        ("mysql://u@db/ids", false),
        ("mysql://u@127.0.0.1/ids", true),
        ("mysql://u@db/ids?socket=/run/db.sock", true),
        ("mysql://u@db/ids?ssl-mode=required", false),
        ("mysql://u@db/ids?ssl-mode=verify_identity", true),
        ("mysql://u@db/ids?sslmode=disabled", false),
        ("postgres://u@db/ids", false),
        ("postgres://u@%2Frun%2Fdb/ids", true),
        ("postgres://u@db/ids?host=/run/db", true),
        ("postgres://u@localhost/ids?hostaddr=10.0.0.1", false),
        ("postgres://u@db/ids?sslmode=require", false),
        ("postgres://u@db/ids?sslmode=verify-full", true),
        ("sqlite://raindrop.db", true),
        ("memory:", true),
    ] {
        let store = connect(&StoreSettings::new(url), Arc::new(ManualClock::new(0)));
        assert_eq!(store.expect("a store").is_verified(), is_verified, "{url}");
    }
}

#[cfg(all(feature = "mysql", feature = "postgres", feature = "redis"))]
#[test]
fn address_may_name_several_hosts() {
    for (url, is_verified) in [
        ("mysql://u:p@a:3306,b:3307/app", false),
        ("mariadb://u@localhost,127.0.0.1:2,[::1]/app", true),
        ("mysql://u@localhost,db/app", false),
        ("mysql://u@a,b/app?ssl-mode=verify_identity", true),
        ("postgres://u@a,[2001:db8::1]:5433/app?sslmode=require", false),
        ("postgres://u@%2Frun%2Fdb,localhost/app", true),
        ("redis://a,b:6380/0", false),
        ("redis://:p@localhost,[::1]:6380", true),
        ("rediss://u:p@a,b/0", true),
        ("redis+sentinel://s1,s2:26380/ids", false),
        ("redis+sentinel://u:p@localhost/ids/3?sentinel-password=p", false),
        ("rediss+sentinel://u:p@s1,[::1]:2/my-ids.1/0?sentinel-user=u&sentinel-password=p", true),
    ] {
        let store = connect(&StoreSettings::new(url), Arc::new(ManualClock::new(0)));
        assert_eq!(store.expect(url).is_verified(), is_verified, "{url}");
    }
    for (url, reason) in [
        ("mysql://u:secret@a,,b/app", "host 2 of 3 is empty"),
        ("mysql://u:secret@a:1,b:port/app", "host 2 of 2: error with configuration: invalid port"),
        ("mysql://u:secret@a,b:99999/app", "host 2 of 2: error with configuration: invalid port"),
        ("postgres://u:secret@[::1,b/app", "host 1 of 2: error with configuration: invalid IPv6"),
        ("mysql://u:secret@a,b", "it names no database"),
        ("mysql://u@a,b/app?socket=/run/db", "its parameter socket can name one server only"),
        ("postgres://u@a,b/app?port=5433", "its parameter port can name one server only"),
        ("postgres://u@/app?host=a,b", "its parameter host can name one server only"),
        ("redis://:secret@localhost,b/0", "would send the password over the network"),
        ("redis://a,b/words", "host 1 of 2"),
        ("redis+sentinel://:secret@s1/ids", "would send the password over the network"),
        ("redis+sentinel://s1/ids?sentinel-password=secret", "would send the password"),
        ("redis+sentinel://s1", "must name a service"),
        ("redis+sentinel://s1/", "must name a service"),
        ("redis+sentinel://s1/a%20b", "must name a service"),
        ("redis+sentinel://s1/ids/words", "Invalid database number"),
        ("redis+sentinel://s1,/ids", "host 2 of 2 is empty"),
        ("redis+sentinel://s1/ids?sentinel_password=x", "it must be sentinel-password"),
        ("redis-sentinel://s1/ids", "redis+sentinel://"),
        ("kubernetes://a,b", "it must be kubernetes: alone"),
    ] {
        let said = refusal(url);
        assert!(said.contains(reason) && !said.contains("secret"), "{url}: {said}");
    }
    let settings = |tls| StoreSettings { tls, ..StoreSettings::new("redis+sentinel://s1/ids") };
    let said = check(&settings(Some(TlsMode::Verify))).expect_err("no TLS").to_string();
    assert!(said.contains("must begin with rediss+sentinel://"), "{said}");
}
