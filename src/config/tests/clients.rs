//! Who may call, and how often.

use super::*;

#[test]
fn cors_can_be_switched_off_from_every_source() {
    let origins = |inputs: &Inputs| Config::load(inputs).expect("valid").http.cors_origins;
    let none = CorsOrigins::List(Vec::new());
    for value in ["", "none"] {
        assert_eq!(origins(&environment(&[("http.cors_origins", value)])), none);
        let (folder, mut inputs) = file(&format!("http.cors_origins = '{value}'"));
        assert_eq!(origins(&inputs), none);
        inputs.file = None;
        let dot_env = folder.path().join(".env");
        fs::write(&dot_env, format!("RAINDROP__HTTP__CORS_ORIGINS={value}\n")).expect("written");
        inputs.dot_env = Some(dot_env);
        assert_eq!(origins(&inputs), none);
    }
    let (_folder, inputs) = file("http.cors_origins = []");
    assert_eq!(origins(&inputs), none);
    let mixed = problems(&environment(&[("http.cors_origins", "none,https://a.example")]));
    assert!(mixed[0].contains("* or none alone"), "{mixed:?}");
    // Any other empty variable is unset.
    Config::load(&environment(&[("http.listen", "")])).expect("valid");
}

#[test]
fn limits_per_client_are_read_and_derived() {
    let share = |pairs: &[(&str, &str)]| {
        let config = Config::load(&environment(pairs)).expect("valid");
        (keeper(&config).issue.codes_max_per_client, value_of(&config, "codes.max_per_client").0)
    };
    for (max, expected) in [("100000", 10_000), ("5000", 500), ("500", 100), ("5", 5)] {
        assert_eq!(share(&[("codes.max", max)]), (expected, expected.to_string()));
    }
    assert_eq!(share(&[("codes.max_per_client", "7")]).0, 7);

    let config = Config::load(&environment(&[
        ("http.max_requests_per_ip", "50"),
        ("http.trusted_proxies", "10.0.0.0/8, 192.0.2.1,fd00::/8"),
        ("http.admin_hosts", "ids.example.com"),
    ]));
    let http = config.expect("valid").http;
    assert_eq!(http.max_requests_per_ip.map(std::num::NonZeroU32::get), Some(50));
    assert_eq!(http.max_requests_per_token, None);
    let proxies: Vec<String> = http.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(proxies, ["10.0.0.0/8", "192.0.2.1/32", "fd00::/8"]);
    assert_eq!(http.admin_hosts, ["ids.example.com"]);

    for (key, value) in [
        ("codes.max_per_client", "0"),
        ("http.max_requests_per_ip", "-1"),
        ("auth.max_requests_per_token", "x"),
        ("http.trusted_proxies", "10.0.0.0/33"),
        ("http.trusted_proxies", "proxy.example.com"),
        ("http.trusted_proxies", "::ffff:10.0.0.0/104"),
        ("http.cors_origins", "https://App.example.com"),
        ("http.cors_origins", "https://app.example.com:443"),
        ("http.cors_origins", "http://app.example.com:80"),
        ("http.cors_origins", "https://app.example.com/"),
        ("http.admin_hosts", "ids.example.com:9090"),
        ("http.admin_hosts", "https://ids.example.com"),
    ] {
        let found = problems(&environment(&[(key, value)]));
        let start = format!("{key} = {value}");
        assert!(found.len() == 1 && found[0].starts_with(&start), "{found:?}");
    }
}
