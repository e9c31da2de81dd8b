//! `docs/settings.md` has every key as a key of the file, a variable and a value of the chart.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

const BEGIN: &str = "<!-- settings -->\n";
const END: &str = "<!-- end of settings -->";

/// The values of the chart that set a key which `config` may not.
const OWN_VALUES: [(&str, &[&str]); 9] = [
    ("store.url", &["store.url", "store.existingSecret", "store.sqlite.enabled"]),
    ("store.url_file", &["store.url", "store.existingSecret", "store.sqlite.enabled"]),
    ("store.state_file", &["stateFile.enabled"]),
    ("http.admin_listen", &["admin.enabled", "admin.port"]),
    ("http.tls.cert_file", &["tls.existingSecret", "tls.certificate.enabled"]),
    ("http.tls.key_file", &["tls.existingSecret", "tls.certificate.enabled"]),
    ("http.tls.client_ca_file", &["tls.clientCA.existingSecret", "tls.clientCA.existingConfigMap"]),
    (
        "http.tls.client_crl_file",
        &["tls.clientCRL.existingSecret", "tls.clientCRL.existingConfigMap"],
    ),
    ("auth.tokens_file", &["auth.existingSecret"]),
];

fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a value may be.
fn allowed(form: Form) -> String {
    let of_words = |words: Vec<&str>| {
        let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
        words.join(", ")
    };
    match form {
        Form::Text => "text".to_owned(),
        Form::Boolean => "`true`, `false`".to_owned(),
        Form::List => "list".to_owned(),
        Form::Number { least, most } => format!("{least} to {most}"),
        Form::Duration { shortest, longest } => {
            let [shortest, longest] = [shortest, longest].map(duration::format);
            format!("{shortest} to {longest}")
        }
        Form::Size { least, most } => format!("{} to {}", size::format(least), size::format(most)),
        Form::Words(words) => of_words(words()),
        Form::NumberedWords { words, most } => format!("{}, 1 to {most}", of_words(words())),
    }
}

fn row(key: &Key) -> String {
    let own = OWN_VALUES.iter().find(|(name, _)| *name == key.name).map(|(_, values)| *values);
    let chart = match own {
        Some(values) => values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>(),
        None => vec![format!("`config.{}`", key.name)],
    };
    let default = key.default.map_or_else(String::new, |default| format!("`{default}`"));
    let (name, variable, help) = (key.name, keys::variable(key.name), key.help);
    let (chart, allowed) = (chart.join(", "), allowed(key.form));
    format!("| `{name}` | `{variable}` | {chart} | {allowed} | {default} | {help} |\n")
}

fn tables() -> String {
    let mut text = String::new();
    let mut section = "";
    for key in KEYS {
        let this = keys::section_of(key.name);
        if this != section {
            section = this;
            text += &format!("\n## {section}\n\n");
            text += "| file | environment | chart | values | default | meaning |\n";
            text += "|---|---|---|---|---|---|\n";
        }
        text += &row(key);
    }
    text
}

#[test]
fn the_page_of_settings_has_every_key_as_file_environment_and_chart_have_it() {
    let page = read("docs/settings.md");
    let (before, rest) = page.split_once(BEGIN).expect("the begin of the tables");
    let (_, after) = rest.split_once(END).expect("the end of the tables");
    let expected = format!("{before}{BEGIN}{}\n{END}{after}", tables());
    if std::env::var_os("UPDATE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/settings.md");
        fs::write(path, &expected).expect("written");
    }
    assert_eq!(read("docs/settings.md"), expected, "UPDATE=1 rewrites docs/settings.md");
}

/// The dotted names of the values in `values.yaml` that have a description (`# --`).
fn values_of_the_chart() -> Vec<String> {
    let mut path: Vec<String> = Vec::new();
    let mut values = Vec::new();
    let mut is_described = false;
    for line in read("helm/raindrop/values.yaml").lines() {
        let text = line.trim_start();
        if text.starts_with('#') {
            is_described |= text.starts_with("# --");
        } else if let Some((name, _)) = text.split_once(':') {
            path.truncate((line.len() - text.len()) / 2);
            path.push(name.to_owned());
            if std::mem::take(&mut is_described) {
                values.push(path.join("."));
            }
        }
    }
    values
}

/// Adds the keys of a schema that it refuses because values of the chart set them. A constant that
/// no value equals says which.
fn collect_refused(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if schema["const"].as_str().is_some_and(|text| text.starts_with("unset: ")) {
        found.insert(path.to_owned());
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect_refused(inner, &path, found);
    }
}

#[test]
fn the_page_of_settings_names_the_values_of_the_chart() {
    let known = values_of_the_chart();
    assert!(known.contains(&"config".to_owned()), "{known:?}");
    for value in OWN_VALUES.iter().flat_map(|(_, values)| *values) {
        assert!(known.contains(&(*value).to_owned()), "{value} in {known:?}");
    }
    let text = read("helm/raindrop/values.schema.json");
    let schema: Value = serde_json::from_str(&text).expect("a schema");
    let mut refused = BTreeSet::new();
    collect_refused(&schema["properties"]["config"], "", &mut refused);
    for rule in schema["allOf"].as_array().expect("rules") {
        collect_refused(&rule["then"]["properties"]["config"], "", &mut refused);
    }
    assert!(refused.len() > 4, "{refused:?}");
    for key in KEYS {
        let is_refused = refused.iter().any(|name| {
            key.name
                .strip_prefix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let has_own = OWN_VALUES.iter().any(|(name, _)| *name == key.name);
        assert_eq!(has_own, is_refused, "{}", key.name);
    }
}
