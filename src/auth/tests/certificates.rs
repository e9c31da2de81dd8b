//! Client certificates: their names, and what entries permit them.

use super::*;

/// Has the subject CN=common.example and the alternative names Client.Example, *.wild.example,
/// spiffe://example.org/shop, shop@example.org and 10.0.0.7.
const NAMED: &[u8] = include_bytes!("certificates/names.der");
/// Has the subject CN=client.example and no alternative names.
const NAMELESS: &[u8] = include_bytes!("certificates/no-names.der");

/// When the former expires, in Unix ms.
const NOT_AFTER_MS: i64 = 4_948_953_785_000;

/// The name of the entry that decides for a certificate.
fn of(auth: &Auth, der: &[u8], now_ms: i64) -> Result<String, Refusal> {
    let certificate = ClientCertificate::read(der);
    let caller = auth.authenticate(&HeaderMap::new(), Some(&certificate), now_ms)?;
    Ok(caller.0.expect("tokens are required").name.clone())
}

fn entry_of(name: &str, certificate: &str) -> String {
    format!("[[token]]\nname = '{name}'\ncertificate = '{certificate}'\n")
}

#[test]
fn a_certificate_is_known_by_its_alternative_names_and_its_hash() {
    for (certificate, named, nameless) in [
        ("dns:client.example", true, false),
        ("dns:CLIENT.example", true, false),
        ("uri:spiffe://example.org/shop", true, false),
        ("sha256:bc4927e034eea08f7bd069d5ade887bcb063be6655d507616ccf0b3887fcd7f0", true, false),
        ("sha256:E8BD7486D83BFF9C5FE7CD9A540F0678F5B45BB001EE44F6F4348DF838DBDE66", false, true),
        ("uri:spiffe://example.org/Shop", false, false),
        ("uri:spiffe://example.org", false, false),
        ("dns:common.example", false, false),
        ("dns:a.wild.example", false, false),
        ("dns:10.0.0.7", false, false),
        ("dns:example", false, false),
    ] {
        let auth = open(&entry_of("shop", certificate)).expect("valid");
        for (der, is_known) in [(NAMED, named), (NAMELESS, nameless)] {
            let wanted =
                if is_known { Ok("shop".into()) } else { Err(Refusal::UnknownCertificate) };
            assert_eq!(of(&auth, der, NOW_MS), wanted, "{certificate}");
        }
    }
}

#[test]
fn bytes_that_are_no_certificate_have_a_hash_only() {
    let hash = TokenHash::of(b"nonsense");
    let text = entry_of("shop", &hash.to_string()) + &entry_of("other", "dns:client.example");
    let auth = open(&text).expect("valid");
    assert_eq!(of(&auth, b"nonsense", NOW_MS), Ok("shop".into()));
    for length in 0..NAMED.len() {
        assert_eq!(of(&auth, &NAMED[..length], NOW_MS), Err(Refusal::UnknownCertificate));
    }
    assert_eq!(of(&auth, NAMED, NOW_MS), Ok("other".into()));
}

#[test]
fn the_first_entry_that_has_not_expired_decides() {
    let text = format!(
        "{}expires = '2026-01-01'\n{}expires = '2027-01-01'\n{}",
        entry_of("first", "uri:spiffe://example.org/shop"),
        entry_of("second", "dns:client.example"),
        entry("by-token", "abc"),
    );
    let auth = open(&text).expect("valid");
    assert_eq!(of(&auth, NAMED, 0), Ok("first".into()));
    assert_eq!(of(&auth, NAMED, NOW_MS), Ok("second".into()));
    assert_eq!(of(&auth, NAMED, i64::MAX), Err(Refusal::Expired));
}

/// A connection can outlast the certificate that its handshake verified.
#[test]
fn an_expired_certificate_opens_nothing() {
    let auth = open(&entry_of("shop", "dns:client.example")).expect("valid");
    assert_eq!(of(&auth, NAMED, NOT_AFTER_MS), Ok("shop".into()));
    assert_eq!(of(&auth, NAMED, NOT_AFTER_MS + 1), Err(Refusal::Expired));
}

#[test]
fn an_authorization_header_decides_alone() {
    let text = entry_of("by-certificate", "dns:client.example") + &entry("by-token", "abc");
    let auth = open(&text).expect("valid");
    let certificate = ClientCertificate::read(NAMED);
    let with = |headers: &HeaderMap| {
        let caller = auth.authenticate(headers, Some(&certificate), NOW_MS)?;
        Ok(caller.0.expect("tokens are required").name.clone())
    };
    assert_eq!(with(&HeaderMap::new()), Ok("by-certificate".into()));
    assert_eq!(with(&bearer("abc")), Ok("by-token".into()));
    assert_eq!(with(&bearer("abd")), Err(Refusal::UnknownToken));
    for (value, refusal) in
        [("Basic YTpi", Refusal::Missing), ("", Refusal::Missing), ("Bearer", Refusal::Unusable)]
    {
        let headers =
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))]);
        assert_eq!(with(&headers), Err(refusal), "{value:?}");
    }
    assert_eq!(at(&auth, "abc", NOW_MS).expect("known").name, "by-token");
    let nobody = auth.authenticate(&HeaderMap::new(), None, NOW_MS);
    assert_eq!(nobody.expect_err("nothing shown"), Refusal::Missing);
}

#[test]
fn names_that_no_certificate_can_have_are_refused() {
    for certificate in [
        "client.example",
        "dns:",
        "dns:*.example",
        "dns:two words",
        "dns:bücher.example",
        "uri:",
        "uri:no-scheme",
        "email:shop@example.org",
        "cn:client.example",
        "sha256:12",
        "DNS:client.example",
        "",
    ] {
        let problems = open(&entry_of("shop", certificate)).expect_err(certificate);
        let beginning = "[[token]] shop: certificate = *** (FILE): must be dns:, uri: or sha256:";
        assert!(problems.len() == 1 && problems[0].starts_with(beginning), "{problems:?}");
    }
    let twice = entry_of("shop", "dns:a.example") + &entry_of("copy", "dns:A.EXAMPLE");
    assert_eq!(
        open(&twice).expect_err("twice"),
        ["[[token]] copy: certificate = *** (FILE): must be another one than that of \"shop\""]
    );
}
