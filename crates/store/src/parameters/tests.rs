//! Addresses whose parameters are read, refused and never shown.

use std::fs;

use proptest::{prelude::*, sample::select};
use raindrop_core::clock::ManualClock;

use super::*;
use crate::StoreUrl;
use crate::connect;

const PARAMETERS: Parameters = Parameters {
    passed: &["charset", "options", "ssl-cert", "time-zone"],
    mode: &["ssl-mode", "sslmode"],
    modes: &[
        ("disabled", TlsMode::Off),
        ("required", TlsMode::Require),
        ("verify_identity", TlsMode::Verify),
    ],
    ca_file: &["ssl-ca"],
};

fn settings(url: &str, tls: Option<TlsMode>) -> StoreSettings {
    StoreSettings { tls, ..StoreSettings::new(url) }
}

fn refused(settings: &StoreSettings) -> String {
    read(settings, &PARAMETERS).expect_err("refused").to_string()
}

#[test]
fn parameters_for_tls_are_taken_out_and_the_others_stay_as_they_are() {
    for (url, rest, tls) in [
        ("mysql://h/d", "mysql://h/d", None),
        ("mysql://h/d?", "mysql://h/d", None),
        ("mysql://h/d?ssl-mode=REQUIRED", "mysql://h/d", Some(TlsMode::Require)),
        (
            "mysql://h/d?sslmode=Disabled&charset=a%26b",
            "mysql://h/d?charset=a%26b",
            Some(TlsMode::Off),
        ),
        (
            "mysql://h/d?charset=x&&ssl%2Dmode=verify_identity&options[a]=b",
            "mysql://h/d?charset=x&options[a]=b",
            Some(TlsMode::Verify),
        ),
    ] {
        let target = read(&settings(url, None), &PARAMETERS).expect("an address");
        assert_eq!((target.url.as_str(), target.tls), (rest, tls), "{url}");
        let same = read(&settings(url, tls), &PARAMETERS).expect("an address");
        assert_eq!((same.url.as_str(), same.tls), (rest, tls), "{url}");
    }
}

#[test]
fn unknown_and_misspelled_parameters_are_refused_with_the_right_name() {
    for (query, expected) in [
        ("sslMode=REQUIRED", "the parameter sslMode is misspelled: it must be ssl-mode"),
        ("ssl_mode=REQUIRED", "the parameter ssl_mode is misspelled: it must be ssl-mode"),
        ("SSL-MODE=REQUIRED", "the parameter SSL-MODE is misspelled: it must be ssl-mode"),
        ("sslCa=/a", "misspelled: it must be ssl-ca"),
        ("timezone=a", "misspelled: it must be time-zone"),
        ("tls=true", "no parameter tls; store.tls and store.tls_ca_file choose TLS, or ssl-mode"),
        ("useSSL=true", "no parameter useSSL; store.tls and"),
        ("requireSSL=true", "store.tls"),
        (
            "charset=a&allowPublicKeyRetrieval=true",
            "no parameter allowPublicKeyRetrieval; known are",
        ),
        ("ssl-mode=VERIFY", "ssl-mode=VERIFY: must be disabled, required, verify_identity"),
        ("ssl-mode=required&sslmode=disabled", "contradicts store.tls or another parameter"),
        ("charset=a&charset=b", "the parameter charset is given twice"),
        ("charset=a;ssl-mode=required", "separated by & alone; in a value, ; is written as %3B"),
        ("charset=a?ssl-mode=required", "in a value, ? is written as %3F"),
        ("charset=a#ssl-mode=required", "it has a fragment"),
        ("s3cret", "unknown, and not shown"),
        ("pwd=x&s3cret=y", "it has no parameter pwd;"),
        ("s3cret@h/d", "unknown, and not shown"),
    ] {
        let said = refused(&settings(&format!("mysql://u:s3cret@h/d?{query}"), None));
        assert!(said.contains(expected), "{query}: {said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    assert!(refused(&settings("mysql://h/d#x", None)).contains("a # is written as %23"));
}

#[test]
fn a_setting_and_a_parameter_must_agree() {
    let url = "mysql://h/d?ssl-mode=required";
    for tls in [TlsMode::Verify, TlsMode::Prefer, TlsMode::Off] {
        let said = refused(&settings(url, Some(tls)));
        assert!(said.contains("its parameter ssl-mode contradicts store.tls"), "{said}");
    }
}

#[test]
fn a_file_of_authorities_is_checked_and_needs_verify() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("ca.pem"), "-----BEGIN CERTIFICATE-----\n").expect("written");
    fs::write(path("empty.pem"), "").expect("written");
    let with = |name: &str, tls| StoreSettings {
        tls_ca_file: Some(path(name)),
        ..settings("mysql://h/d", tls)
    };
    let target = read(&with("ca.pem", Some(TlsMode::Verify)), &PARAMETERS).expect("usable");
    assert_eq!(target.ca_file, Some(path("ca.pem")));
    for tls in [None, Some(TlsMode::Prefer), Some(TlsMode::Require), Some(TlsMode::Off)] {
        assert!(refused(&with("ca.pem", tls)).contains("needs store.tls = \"verify\""));
    }
    assert!(refused(&with("empty.pem", Some(TlsMode::Verify))).contains("contains no certificate"));
    assert!(refused(&with("none.pem", Some(TlsMode::Verify))).contains("none.pem: "));
    fs::write(path("marked.pem"), "\u{feff}-----BEGIN CERTIFICATE-----\n").expect("written");
    let marked = refused(&with("marked.pem", Some(TlsMode::Verify)));
    assert!(marked.contains("begins with a byte-order mark"), "{marked}");
    // A folder in place of a FIFO, on which a driver would hang.
    let other = "must be a regular file: it is read again for each connection";
    let url = format!("mysql://h/d?ssl-cert={}", folder.path().display());
    assert!(refused(&settings(&url, None)).contains(other));
    assert!(refused(&with("", Some(TlsMode::Verify))).contains(other));
    let both = format!("mysql://h/d?ssl-ca={}", path("other.pem").display());
    let both = StoreSettings { url: StoreUrl::new(both), ..with("ca.pem", Some(TlsMode::Verify)) };
    assert!(refused(&both).contains("ssl-ca contradicts store.tls_ca_file"));
}

/// Addresses with SECRET wherever a password may stand by intention or by mistake.
fn address() -> impl Strategy<Value = String> {
    let server = {
        let scheme = select(vec![
            "mysql",
            "mariadb",
            "postgres",
            "redis",
            "rediss",
            "redis+sentinel",
            "jdbc:mysql",
            "my",
        ]);
        let user = select(vec![
            "",
            "u@",
            "u:SECRET@",
            ":SECRET@",
            "u:?SECRET@",
            "u:#SECRET@",
            "u:S@SECRET@",
            "u:S,SECRET@",
        ]);
        let place = select(vec![
            "h/d",
            "h",
            "[::1]:1/d",
            "%2Frun/d",
            "h:SECRET/d",
            "h;Pwd=SECRET",
            "h:1,[::1],i/d",
            "h,i:SECRET,SECRET/d",
            "h:1/0",
        ]);
        (scheme, user, place).prop_map(|(scheme, user, place)| format!("{scheme}://{user}{place}"))
    };
    let place = prop_oneof![
        server,
        select(vec!["sqlite://a.db", "sqlite:a.db", "memory:", "mysql:u:SECRET@h/d", ""])
            .prop_map(str::to_owned)
    ];
    let harmless = (
        select(vec!["sslmode", "sslMode", "ssl-mode", "host", "mode", "charset", "user"]),
        select(vec!["REQUIRED", "disable", "true", "", "rwc", "a;b=SECRET"]),
    );
    let secret = (
        select(vec![
            "ssl_mode",
            "tls",
            "useSSL",
            "pwd",
            "pass",
            "Password",
            "password",
            "sslpassword",
            "sentinel-password",
            "token",
            "p%61ss",
            "options[a]",
            "protocol",
            "SECRET",
        ]),
        select(vec!["SECRET", "SECRET@h", "", "true"]),
    );
    let pair = prop_oneof![harmless, secret].prop_map(|(name, value)| match name {
        "SECRET" => name.to_owned(),
        _ => format!("{name}={value}"),
    });
    let join = select(vec!["?", "&", ";", "#", "??"]);
    (place, prop::collection::vec((join, pair), 0..4)).prop_map(|(place, pairs)| {
        let pairs: String = pairs.into_iter().map(|(join, pair)| format!("{join}{pair}")).collect();
        place + &pairs
    })
}

mod properties {
    use std::sync::Arc;

    use super::*;

    proptest! {
        #[test]
        fn no_error_and_no_debug_output_shows_a_secret(url in address()) {
            let settings = settings(&url, None);
            let said = match connect(&settings, Arc::new(ManualClock::new(0))) {
                Ok(store) => format!("{store:?}"),
                Err(error) => error.to_string(),
            };
            let shown = format!("{settings:?} {said}");
            prop_assert!(!shown.contains("SECRET"), "{url}: {shown}");
        }

        #[test]
        fn what_is_passed_to_a_driver_is_known_to_it(url in address()) {
            if let Ok(target) = read(&settings(&url, None), &PARAMETERS) {
                let query = target.url.split_once('?').map_or("", |(_, query)| query);
                for (name, _) in form_urlencoded::parse(query.as_bytes()) {
                    let is_known = PARAMETERS.passed.contains(&&*name) || name.starts_with("options[");
                    prop_assert!(is_known, "{url}: {name}");
                }
            }
        }

        #[test]
        fn no_text_makes_reading_an_address_panic(url in ".{0,60}") {
            let _ = read(&settings(&url, None), &PARAMETERS);
            let _ = StoreUrl::new(&url).to_string();
        }
    }
}
