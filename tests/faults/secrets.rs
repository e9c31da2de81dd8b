//! Puts passwords and tokens in every place where an operator may put them, and checks that no
//! output shows one.

use std::fs;

use reqwest::StatusCode;
use serde_json::Value;

use crate::{
    service::{PATIENCE, Service, Setup, assert_shows_no_secret, client, run},
    support::{
        PLANTED, free_port,
        mariadb::Mariadb,
        poll,
        redis::{Redis, run as command},
        server::Server,
    },
};

/// A token as the command makes them; no output may show its digits.
fn token() -> (String, String) {
    let digits = "7a3b9c5d1e2f4068".repeat(4);
    (format!("raindrop_{digits}"), digits)
}

/// Returns the answers of a service with an unreachable store to clients.
async fn public_answers(node: &Service) -> String {
    let mut answers = String::new();
    for path in ["/id/order", "/ids/order?n=2", "/health", "/readyz", "/metrics", "/cluster", "/x"]
    {
        answers += &node.get(path).await.expect("an answer").text().await.expect("text");
    }
    let past = node.url("/id/order?at=2026-01-01T00:00:00Z");
    let answer = client().post(past).send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let problem: Value = answer.json().await.expect("JSON");
    assert_eq!(problem["detail"], "the store is unavailable: it cannot be reached");
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_store_is_named_to_operators_and_its_password_to_nobody() {
    for (scheme, format) in [("mysql", "text"), ("postgres", "json"), ("redis", "text")] {
        let (port, admin) = (free_port(), free_port());
        let database = if scheme == "redis" { "0" } else { "ids" };
        let url = format!("{scheme}://somebody:{PLANTED}@127.0.0.1:{port}/{database}");
        let setup = Setup::new()
            .set("store.url", url)
            .set("log.level", "trace")
            .set("log.format", format)
            .set("layout.preset", "yitter");
        let node = setup.clone().start().await;
        let problem = poll::until(PATIENCE, "the store was tried", async || {
            let (_, problem) = node.json("/id/order").await;
            (problem["code"] == "store_unavailable").then_some(problem)
        })
        .await;
        let detail = problem["detail"].as_str().expect("text");
        assert!(detail.ends_with("the store is unavailable: it cannot be reached"), "{detail}");
        let answers = public_answers(&node).await;
        assert_shows_no_secret(&answers);
        for private in ["somebody", "refused (os error"] {
            assert!(!answers.contains(private), "{private} in\n{answers}");
        }
        // A longer number, such as the bytes of memory, may have these digits by chance.
        let mut numbers = answers.split(|c: char| !c.is_ascii_digit());
        assert!(!numbers.any(|number| number == port.to_string()), "{port} in\n{answers}");
        node.logged("refused").await;
        drop(node);

        // The operators' listener has the whole error, but for the password.
        let _node = setup.set("http.admin_listen", format!("127.0.0.1:{admin}")).start().await;
        let get = async |path: &str| {
            let answer = client().get(format!("http://127.0.0.1:{admin}{path}")).send().await;
            answer.expect("an answer").text().await.expect("text")
        };
        poll::until(PATIENCE, "the store was tried", async || {
            get("/health").await.contains("refused").then_some(())
        })
        .await;
        let answers = get("/health").await + &get("/cluster").await + &get("/metrics").await;
        assert!(answers.contains("raindrop_store_verified 1"), "{answers}");
        assert_shows_no_secret(&answers);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_accepts_no_writes_is_named_to_operators_with_the_way_out() {
    let server = Server::start(&Mariadb).await;
    let admin = format!("127.0.0.1:{}", free_port());
    let setup = Setup::new().set("store.url", server.database().await).set("lease.renew", "1s");
    let public = setup.clone().start_leased().await;
    let node = setup.set("http.admin_listen", &admin).start_leased().await;
    let until_reason = async |url: String, reason: &str| {
        poll::until(PATIENCE, reason, async || {
            let answer = client().get(&url).send().await.expect("an answer");
            answer.text().await.expect("text").contains(reason).then_some(())
        })
        .await;
    };
    server.run("SET GLOBAL read_only = 1").await;
    let port = server.port();
    let reason = format!(
        "the store accepts no writes: 127.0.0.1:{port}: read_only is on: name the server that accepts \
         writes in store.url, or turn it off"
    );
    until_reason(format!("http://{admin}/health"), &reason).await;
    until_reason(public.url("/health"), "the store is unavailable: it accepts no writes").await;
    node.logged(&reason).await;
    server.run("SET GLOBAL read_only = 0").await;
    poll::until(PATIENCE, "writes are accepted again", async || {
        let health = public.json("/health").await.1;
        (!health.to_string().contains("accepts no writes")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unverified_store_is_named_in_the_log_in_a_metric_and_in_cluster() {
    let server = Server::shared(&Mariadb).await;
    let url = server.database().await;
    for (host, is_verified) in [("[::ffff:127.0.0.1]", false), ("127.0.0.1", true)] {
        let admin = format!("127.0.0.1:{}", free_port());
        let node = Setup::new()
            .set("store.url", url.replace("127.0.0.1", host))
            .set("store.tls", "off")
            .set("http.admin_listen", &admin)
            .start_leased()
            .await;
        let get = async |path: &str| {
            let answer = client().get(format!("http://{admin}{path}")).send().await;
            answer.expect("an answer").text().await.expect("text")
        };
        let cluster: Value = serde_json::from_str(&get("/cluster").await).expect("JSON");
        assert_eq!(cluster["store_verified"], is_verified, "{cluster}");
        let metric = format!("raindrop_store_verified {}", u8::from(is_verified));
        assert!(get("/metrics").await.contains(&metric), "{metric}");
        if !is_verified {
            node.logged("store not verified").await;
        }
        let warned = node.log().matches("store not verified").count();
        assert_eq!(warned, usize::from(!is_verified), "{}", node.log());
    }
}

/// A node whose password was changed logs in with the new content of the file, and needs no
/// restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_password_is_read_at_the_next_login() {
    let (mariadb, redis) = (Server::start(&Mariadb).await, Server::start(&Redis).await);
    mariadb.run("CREATE USER 'rotated'@'127.0.0.1' IDENTIFIED BY 'one'").await;
    mariadb.run("GRANT ALL ON *.* TO 'rotated'@'127.0.0.1'").await;
    let set = ["ACL", "SETUSER", "rotated", "on", ">one", "~*", "+@all"];
    command::<String>(redis.address(), &set).await;
    for server in [&mariadb, &redis] {
        let is_redis = std::ptr::eq(server, &redis);
        let url = server.database().await;
        let (scheme, rest) = url.split_once("://").expect("an address");
        let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("password");
        fs::write(&file, "one\n").expect("written");
        let node = Setup::new()
            .set("store.url", format!("{scheme}://rotated@{address}"))
            .set("store.password_file", file.display())
            .set("lease.renew", "1s")
            .start_leased()
            .await;
        if is_redis {
            let rotate = ["ACL", "SETUSER", "rotated", "resetpass", ">two"];
            command::<String>(redis.address(), &rotate).await;
            command::<i64>(redis.address(), &["CLIENT", "KILL", "USER", "rotated"]).await;
        } else {
            server.run("ALTER USER 'rotated'@'127.0.0.1' IDENTIFIED BY 'two'").await;
            server.run("KILL USER 'rotated'@'127.0.0.1'").await;
        }
        poll::until(PATIENCE, "the password is refused", async || {
            node.health().await["reason"].as_str().map(str::to_owned)
        })
        .await;
        fs::write(&file, "two\n").expect("written");
        poll::until(PATIENCE, "the lease is renewed again", async || {
            node.health().await["reason"].is_null().then_some(())
        })
        .await;
        node.stop().await;
    }
}

#[test]
fn no_command_shows_the_password_of_an_address_that_it_refuses() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (url, is_fine) in [
        ("redis://PLANTED@localhost", true),
        ("redis://:PLANTED@db", false),
        ("rediss://:PLANTED@db/0#insecure", false),
        ("postgres://u:PLANTED@db/ids", true),
        ("postgres://u@db/ids?password=PLANTED", true),
        ("postgres://u@db/ids?pwd=PLANTED", false),
        ("postgres://u@db/ids?pass=PLANTED", false),
        ("postgres://u@db/ids?Password=PLANTED", false),
        ("postgres://u@db/ids?sslpassword=PLANTED", false),
        ("mysql://u:PLANTED@db/ids?sslMode=REQUIRED", false),
        ("mysql://db/ids?user=u&password=PLANTED", false),
        ("mysql://u:PLAN?PLANTED@db/ids", false),
        ("mysql://u:PLANTED#PLANTED@db/ids", false),
        ("mysql://u:PLANTED/ids", false),
        ("u:PLANTED@tcp(db:3306)/ids", false),
        ("Server=db;Uid=u;Pwd=PLANTED", false),
        ("oracle://db/ids?token=PLANTED", false),
        ("sqlite://a.db?key=PLANTED", false),
    ] {
        let url = url.replace("PLANTED", PLANTED);
        let settings = [("RAINDROP__STORE__URL", url.as_str())];
        let (code, ..) = run(&["config"], &settings, folder.path());
        assert_eq!(code, Some(if is_fine { 0 } else { 2 }), "{url}");
        if !is_fine {
            let import = ["codes", "import", "leaf", "--yes", "--from", &url];
            let (code, ..) = run(&import, &[("RAINDROP__MODE", "segment")], folder.path());
            assert_eq!(code, Some(2), "{url}");
        }
    }
}

#[test]
fn an_argument_with_a_password_is_warned_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("postgres://u:{PLANTED}@db/ids");
    for (url, is_warned) in [(url.as_str(), true), ("postgres://u@db/ids", false)] {
        let (code, _, err) = run(&["config", "--store-url", url], &[], folder.path());
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(err.contains("--store-url may have a password"), is_warned, "{err}");
    }
}

#[test]
fn misspelled_tls_parameters_end_the_start_with_the_right_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (parameter, right) in [
        ("sslMode=REQUIRED", "ssl-mode"),
        ("ssl_mode=REQUIRED", "ssl-mode"),
        ("tls=true", "store.tls"),
        ("useSSL=true", "store.tls"),
    ] {
        let url = format!("mysql://u:{PLANTED}@db/ids?{parameter}");
        let (code, _, err) = run(&["serve"], &[("RAINDROP__STORE__URL", &url)], folder.path());
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(right) && err.contains("store.url"), "{err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_the_place_of_a_name_or_code_or_key_is_not_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (token, digits) = token();
    let toml = folder.path().join("raindrop.toml");
    let toml_path = toml.to_str().expect("text");
    for text in [
        format!("{token} = 1\n"),
        format!("[http]\n{token} = 1\n"),
        format!("[namespaces.{token}]\nmode = \"segment\"\n"),
        format!("[[code]]\nname = \"{token}\"\n"),
        format!("[codes]\nallow = [\"{token}\"]\n"),
        format!("[worker]\nsource = \"{token}\"\n"),
        format!("[worker]\nholder = \"{token}\"\n"),
    ] {
        fs::write(&toml, &text).expect("written");
        let (code, out, err) = run(&["--config", toml_path, "config"], &[], folder.path());
        assert!(!format!("{out}{err}").contains(&digits), "{text}: {code:?}\n{out}{err}");
        assert!(format!("{out}{err}").contains("raindrop_***"), "{text}: {out}{err}");
    }
    let tokens = folder.path().join("tokens.toml");
    let file = ("RAINDROP__AUTH__TOKENS_FILE", tokens.to_str().expect("text"));
    for entry in [
        format!("name = \"a\"\nhash = \"{token}\"\n"),
        format!("name = \"{token}\"\nhash = \"x\"\n"),
        format!("name = \"a\"\nhash = \"x\"\ncodes = [\"{token}\"]\n"),
        format!("name = \"a\"\nhash = \"x\"\n{token} = 1\n"),
    ] {
        fs::write(&tokens, format!("[[token]]\n{entry}")).expect("written");
        let (code, out, err) = run(&["config"], &[file], folder.path());
        assert_eq!(code, Some(2), "{out}");
        assert!(!format!("{out}{err}").contains(&digits), "{entry}: {err}");
    }

    let setup = Setup::new().set("log.level", "trace").set("worker.holder", &token);
    let node = setup.start_leased().await;
    for path in [&format!("/id/{token}"), "/id/order"] {
        let request = client().get(node.url(path)).bearer_auth(&token);
        request.send().await.expect("an answer");
    }
    assert!(!node.log().contains(&digits), "{}", node.log());
}
