mod certificates;
mod corpus;
mod expiry;

use std::{fs, sync::Arc};

use axum::http::{HeaderValue, header};

use super::{caller::Rights, tokens::TokenHash, *};

/// 2026-11-23T00:00:00Z.
pub(crate) const NOW_MS: i64 = 1_795_392_000_000;

/// Of "abc", the first test vector of FIPS 180-2.
const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// Opens a file with this text, for the namespaces `default` and `web`.
pub(crate) fn open(text: &str) -> Result<Auth, Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens.toml");
    fs::write(&path, text).expect("written");
    let place = format!("{}", path.display());
    Auth::open(&path, ["default", "web"]).map_err(|error| {
        error.0.iter().map(|problem| problem.to_string().replace(&place, "FILE")).collect()
    })
}

/// Returns the text of an entry with this token, to which keys can be appended.
pub(crate) fn entry(name: &str, token: &str) -> String {
    format!("[[token]]\nname = '{name}'\nhash = '{}'\n", TokenHash::of(token.as_bytes()))
}

fn bearer(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a header");
    HeaderMap::from_iter([(header::AUTHORIZATION, value)])
}

/// Returns the rights of the bearer of a token at this time.
fn at(auth: &Auth, token: &str, now_ms: i64) -> Result<Arc<Rights>, Refusal> {
    let caller = auth.authenticate(&bearer(token), None, now_ms)?;
    Ok(caller.0.expect("tokens are required"))
}

fn found(auth: &Auth, token: &str) -> Option<Arc<Rights>> {
    at(auth, token, NOW_MS).ok()
}

#[test]
fn a_token_is_found_by_its_hash_in_either_case() {
    assert_eq!(TokenHash::of(b"abc").to_string(), ABC);
    let upper = ABC.to_uppercase().replace("SHA256", "sha256");
    for hash in [ABC, &upper] {
        let auth = open(&format!("[[token]]\nname = 'shop'\nhash = '{hash}'\n")).expect("valid");
        assert_eq!(auth.count(), 1);
        let rights = found(&auth, "abc").expect("known");
        assert_eq!(rights.name, "shop");
        assert!(rights.has_namespace("web") && rights.has_code("anything"));
        for other in ["abd", "ABC", "", "a bc", ABC] {
            assert!(found(&auth, other).is_none(), "{other:?}");
        }
    }
}

#[test]
fn lists_limit_what_a_token_may_use_and_empty_ones_leave_nothing() {
    let auth = open(&format!(
        "[[token]]\nname = 'shop'\nhash = '{ABC}'\nnamespaces = ['web']\n\
         codes = ['order', 'invoice:*', 'a*']\n\
         [[token]]\nname = 'scraper'\nhash = '{}'\nnamespaces = []\ncodes = []\n",
        TokenHash::of(b"scraper")
    ))
    .expect("valid");
    let shop = found(&auth, "abc").expect("known");
    for (code, may) in [
        ("order", true),
        ("orders", false),
        ("Order", false),
        ("orde", false),
        ("invoice:", true),
        ("invoice:2026", true),
        ("invoice", false),
        ("a", true),
        ("abc", true),
        ("b", false),
    ] {
        assert_eq!(shop.has_code(code), may, "{code}");
    }
    assert!(shop.has_namespace("web") && !shop.has_namespace("default"));
    let scraper = found(&auth, "scraper").expect("known");
    assert!(!scraper.has_code("order") && !scraper.has_namespace("default"));
}

#[test]
fn every_problem_is_told_with_its_place_and_no_secret_with_it() {
    let secret = "raindrop_0123456789abcdef";
    let problems = open(&format!(
        "[[token]]\nname = 'shop'\nhash = '{secret}'\nnamespaces = ['web', 'shop']\n\
         [[token]]\nname = 'shop'\nhash = '{ABC}'\ntoken = '{secret}'\n\
         [[token]]\nname = 'odd'\ncertificate = '{secret}'\npermissions = ['owner']\n\
         expires = '2027-01-31T00:00:00'\n\
         [[token]]\nname = 'both'\nhash = '{secret}'\ncertificate = 'dns:a'\n\
         [[token]]\nname = 'first'\nhash = '{ABC}'\n\
         [[token]]\nname = 'copy'\nhash = '{ABC}'\ncodes = ['order', '*', 'a b', '']\n\
         [[token]]\nhash = 5\ncodes = '*'\n\
         [[token]]\nname = 'bad name'\nnamespaces = [1]\n\
         [tokens]\nname = '{secret}'\n"
    ))
    .expect_err("nothing of it can be used");
    let source = "(FILE): must be";
    let hash = "sha256: and the 64 hexadecimal digits of the token's hash";
    let name = format!("a name that matches {}", crate::core::code::CODE_PATTERN);
    let list = "left out, or a list whose every item is";
    let code = "a code such as order, or a beginning of codes such as invoice:*";
    let form = crate::auth::certificate::CertificateName::FORM;
    let known = "name, hash, certificate, permissions, namespaces, codes, expires";
    let mut expected = vec![
        format!("[[token]] shop: hash = *** {source} {hash}"),
        format!("[[token]] shop: namespaces = [web, shop] {source} {list} default or web"),
        format!(
            "[[token]] #2: name = shop {source} used by one entry only, or by others that have expires"
        ),
        format!("[[token]] #2: token (FILE): unknown key; known are {known}"),
        format!("[[token]] odd: certificate = *** {source} {form}"),
        format!("[[token]] odd: expires = 2027-01-31T00:00:00 {source} {EXPIRY_FORM}"),
        format!("[[token]] odd: permissions = [owner] {source} {list} ids or metrics or admin"),
        format!("[[token]] both: certificate = *** {source} left out where hash is given"),
        format!("[[token]] first: hash = *** {source} another one than that of \"shop\""),
        format!("[[token]] copy: hash = *** {source} another one than that of \"shop\""),
        format!("[[token]] copy: codes = [order, *, a b, ] {source} {list} {code}"),
        format!("[[token]] #7: name = nothing {source} {name}"),
        format!("[[token]] #7: hash = *** {source} {hash}"),
        format!("[[token]] #7: codes = * {source} {list} {code}"),
        format!("[[token]] #8: name = bad name {source} {name}"),
        format!("[[token]] #8: hash = nothing {source} {hash}; or certificate must be given"),
        format!("[[token]] #8: namespaces = [1] {source} {list} default or web"),
        "tokens (FILE): unknown key; known are token".into(),
    ];
    let mut told = problems.clone();
    expected.sort();
    told.sort();
    assert_eq!(told, expected);
    assert!(!problems.concat().contains(secret));
}

#[test]
fn a_file_without_tokens_cannot_be_used() {
    for (text, said) in [
        ("", "FILE: it has no [[token]]: must have at least one"),
        ("token = []", "FILE: it has no [[token]]: must have at least one"),
        ("[token]\nname = 'a'", "token = … (FILE): must be entries that begin with [[token]]"),
        ("token = ['a']", "token[0] = … (FILE): must be a table of keys"),
    ] {
        assert_eq!(open(text).expect_err("nothing"), [said]);
    }
    // What cannot be read is not quoted.
    let broken = open("[[token]]\nhash = 'raindrop_0123\n").expect_err("broken").concat();
    assert!(broken.starts_with("FILE: ") && !broken.contains("raindrop_0123"), "{broken}");
    let missing = Auth::open("/nowhere/tokens.toml", ["default"]).expect_err("missing");
    assert!(missing.to_string().starts_with("/nowhere/tokens.toml: No such file"), "{missing}");
}

/// A process that can write the file can grant itself access.
#[cfg(unix)]
#[test]
fn a_file_that_everybody_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens.toml");
    fs::write(&path, entry("shop", "a secret")).expect("written");
    let auth = Auth::open(&path, ["default"]).expect("valid");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o646)).expect("own");
    let error = auth.reload().expect_err("anybody may write it").to_string();
    assert!(error.ends_with("other users may write it: its mode is 646"), "{error}");
    assert!(found(&auth, "a secret").is_some(), "the tokens are as they were");
}

#[test]
fn a_broken_file_leaves_the_tokens_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens.toml");
    let write = |name: &str, token: &str| {
        let hash = TokenHash::of(token.as_bytes());
        fs::write(&path, format!("[[token]]\nname = '{name}'\nhash = '{hash}'\n"))
            .expect("written");
    };
    write("old", "old secret");
    let auth = Auth::open(&path, ["default"]).expect("valid");
    write("bad name", "new secret");
    auth.reload().expect_err("a bad name");
    assert!(found(&auth, "old secret").is_some() && found(&auth, "new secret").is_none());
    fs::remove_file(&path).expect("removed");
    auth.reload().expect_err("no file");
    assert!(found(&auth, "old secret").is_some());
    write("new", "new secret");
    auth.reload().expect("valid");
    assert!(found(&auth, "old secret").is_none() && found(&auth, "new secret").is_some());
}

#[test]
fn nothing_of_a_token_is_shown() {
    let auth = open(&format!("[[token]]\nname = 'shop'\nhash = '{ABC}'\n")).expect("valid");
    let shown = format!("{auth:?}");
    assert!(shown.contains("shop") && !shown.contains("ba78"), "{shown}");
    // Nor does it show the hash as a list of bytes.
    assert!(!shown.contains("186, 120"), "{shown}");
}
