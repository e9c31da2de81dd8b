//! The addresses to listen on.

use super::*;

#[test]
fn listen_addresses_need_no_name_service() {
    for (text, address) in [
        ("127.0.0.1:80", "127.0.0.1:80"),
        (":8080", "[::]:8080"),
        (":0", "[::]:0"),
        ("localhost:8080", "127.0.0.1:8080"),
        ("LocalHost:1", "127.0.0.1:1"),
    ] {
        let config = Config::load(&environment(&[("http.listen", text)])).expect(text);
        assert_eq!(config.http.listen.to_string(), address);
        let pairs = [("http.admin_listen", text), ("http.listen", "127.0.0.1:81")];
        let config = Config::load(&environment(&pairs)).expect(text);
        assert_eq!(config.http.admin_listen.map(|it| it.to_string()).as_deref(), Some(address));
    }
    for text in
        ["8080", ":", "localhost", "localhost:", ":65536", ":+80", "db:80", "*:80", "::8080"]
    {
        let found = problems(&environment(&[("http.listen", text)]));
        let [problem] = &found[..] else { panic!("{text}: {found:?}") };
        assert!(problem.starts_with(&format!("http.listen = {text} (")), "{problem}");
        assert!(problem.ends_with("or localhost:8080, but no other name"), "{problem}");
    }
    // The same address, written in two ways.
    let found = problems(&environment(&[
        ("http.listen", "127.0.0.1:80"),
        ("http.admin_listen", "localhost:80"),
    ]));
    assert!(found[0].contains("another address or port than http.listen"), "{found:?}");
}
