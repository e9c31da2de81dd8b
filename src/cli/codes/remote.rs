//! `raindrop codes` through the admin routes of a service.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    CodesArguments, Command,
    change::FOR_GOOD,
    list::{HEADINGS, rate_between},
};
use crate::{
    cli::{
        client::{Client, needs_store},
        confirm::Confirmation,
        failure::Failure,
        output::{Report, error, print, print_json, table},
    },
    core::segment::SpecChange,
    server::GivenSettings,
};

/// A page of `GET /codes`.
#[derive(Deserialize)]
struct Page {
    codes: Vec<Code>,
    has_more: bool,
}

/// A code of `GET /codes`: the fields that the commands read, and the others.
#[derive(Deserialize, Serialize)]
struct Code {
    namespace: String,
    code: String,
    kind: String,
    next: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<String>,
    step: u64,
    reserved_at: Option<String>,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
    /// Reserved numbers per second, with `--rate-over`.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
}

/// The document that the commands print with `--json`.
#[derive(Serialize)]
struct Document {
    /// Whether the command did all that it was to do; absent in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<bool>,
    codes: Vec<Code>,
    /// Only with `set --dry-run`: the code with the settings that it would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_be: Option<Code>,
}

impl Code {
    fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.code.clone())
    }

    fn number(&self) -> u64 {
        self.next.parse().unwrap_or(u64::MAX)
    }

    fn state(&self) -> String {
        format!("{} {}: the next number is {}", self.namespace, self.code, self.next)
    }

    fn line(&self) -> [String; 8] {
        let cell = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
        [
            self.namespace.clone(),
            self.code.clone(),
            self.kind.clone(),
            self.next.clone(),
            cell(&self.left),
            if self.step == 0 { "-".to_owned() } else { self.step.to_string() },
            cell(&self.reserved_at),
            self.rate.map_or("-".to_owned(), |rate| format!("{rate:.1}/s")),
        ]
    }
}

/// Runs a command through a service.
pub(super) async fn run(client: &Client, arguments: &CodesArguments) -> Result<(), Failure> {
    let report = Report::of(arguments.json);
    let service = Service { client, namespace: arguments.namespace.as_deref(), report };
    let Some(command) = &arguments.command else { return service.list(arguments).await };
    match command {
        Command::Create { code, settings } => service.create(code, *settings).await,
        Command::Set { code, settings, confirmation } => {
            service.set(code, *settings, confirmation).await
        }
        Command::Raise { by, codes, confirmation } => service.raise(*by, codes, confirmation).await,
        Command::Retire { code, confirmation } => service.retire(code, confirmation).await,
        Command::Import(_) => Err(needs_store("codes import")),
    }
}

/// The codes of a service.
#[derive(Clone, Copy)]
struct Service<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    report: Report,
}

impl Service<'_> {
    async fn list(self, arguments: &CodesArguments) -> Result<(), Failure> {
        let mut codes = self.codes().await?;
        if codes.is_empty() && !arguments.json {
            error("the service has no segment codes");
            return Ok(());
        }
        if let Some(pause) = arguments.rate_over {
            let start = Instant::now();
            tokio::time::sleep(pause).await;
            let before: BTreeMap<_, _> = codes.iter().map(|it| (it.key(), it.number())).collect();
            codes = self.codes().await?;
            for code in &mut codes {
                let before = before.get(&code.key()).copied();
                code.rate = rate_between(before, code.number(), start.elapsed());
            }
        }
        if arguments.json {
            return print_json(&Document { done: None, codes, would_be: None });
        }
        print(&table(HEADINGS, &codes.iter().map(Code::line).collect::<Vec<_>>()))
    }

    /// Returns every code, page by page.
    async fn codes(self) -> Result<Vec<Code>, Failure> {
        let mut codes: Vec<Code> = Vec::new();
        loop {
            let after = codes.last().map(|last| ("after", last.code.as_str()));
            let query = self.namespace.map(|name| ("namespace", name)).into_iter().chain(after);
            let Page { codes: page, has_more } = self.client.get(&path("/codes", query)).await?;
            let is_over = page.is_empty() || !has_more;
            if !is_over && page.last().map(|code| &code.code) <= codes.last().map(|code| &code.code)
            {
                let text = "/codes of the service: a page repeats codes of the page before it";
                return Err(Failure::Failed(text.into()));
            }
            codes.extend(page);
            if is_over {
                // As the store lists them.
                codes.sort_by_key(Code::key);
                return Ok(codes);
            }
        }
    }

    async fn create(self, code: &str, settings: GivenSettings) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        let code = self.change(Method::PUT, code, "", headers, &settings.body()).await?;
        self.told(code)
    }

    async fn set(
        self,
        code: &str,
        settings: GivenSettings,
        confirmation: &Confirmation,
    ) -> Result<(), Failure> {
        let body = settings.body();
        if body.is_empty() {
            let text = "codes set: must have at least one setting, such as --max-step";
            return Err(Failure::Usage(text.into()));
        }
        let now: Code = self.client.get(&self.path(code, "")).await?;
        let raised_to = SpecChange::from(settings).start.filter(|start| *start > now.number());
        let place = format!("{} {code}", now.namespace);
        if let Some(start) = raised_to {
            confirmation.check("codes set --start")?;
            self.report.say(&format!(
                "{place}: the next number is {}, and at least {start} then {FOR_GOOD}",
                now.next
            ))?;
        }
        if confirmation.is_dry_run() {
            let query = [("dry_run", "true")].into_iter();
            let query = query.chain(self.namespace.map(|name| ("namespace", name)));
            let path = path(&format!("/codes/{code}"), query);
            let (headers, patch) = (HeaderMap::new(), Method::PATCH);
            let would_be = Some(self.client.change(patch, &path, headers, Some(&body)).await?);
            self.report.say(&format!("{place}: would be set to {}", Value::Object(body)))?;
            return self.report.document(&Document {
                done: Some(false),
                codes: vec![now],
                would_be,
            });
        }
        if raised_to.is_some() {
            confirmation.is_given()?;
        }
        let code = self.change(Method::PATCH, code, "", HeaderMap::new(), &body).await?;
        self.told(code)
    }

    async fn raise(
        self,
        by: u64,
        codes: &[String],
        confirmation: &Confirmation,
    ) -> Result<(), Failure> {
        confirmation.check("codes raise")?;
        let mut chosen = self.codes().await?;
        if let Some(unknown) = codes.iter().find(|code| chosen.iter().all(|it| it.code != **code)) {
            return Err(Failure::Usage(format!("code {unknown:?} is not in the service")));
        }
        // A retired code has no numbers to issue, and the service refuses to raise it.
        chosen.retain(|listed| match codes {
            [] => listed.kind != "retired",
            named => named.contains(&listed.code),
        });
        if let Some(first) = chosen.first()
            && chosen.iter().any(|listed| listed.namespace != first.namespace)
        {
            return Err(super::ambiguous(chosen.iter().map(|it| it.namespace.as_str()).collect()));
        }
        for listed in &chosen {
            self.report.say(&listed.state())?;
        }
        let raises = format!("raises {} next numbers by {by}, {FOR_GOOD}", chosen.len());
        self.report.say(&raises)?;
        if !confirmation.is_given()? {
            return self.document(false, chosen);
        }
        let (mut raised, mut failed) = (Vec::new(), None);
        for Code { namespace, code, .. } in chosen {
            let body = json!({ "by": by.to_string() });
            let service = Service { namespace: Some(&namespace), ..self };
            let body = body.as_object().expect("an object");
            match service.change(Method::POST, &code, "/raise", HeaderMap::new(), body).await {
                Ok(code) => {
                    self.report.say(&code.state())?;
                    raised.push(code);
                }
                // Continue: the other codes must be safe all the same.
                Err(failure) => {
                    error(failure.text());
                    failed = Some(failure);
                }
            }
        }
        self.document(failed.is_none(), raised)?;
        failed.map_or(Ok(()), Err)
    }

    async fn retire(self, code: &str, confirmation: &Confirmation) -> Result<(), Failure> {
        confirmation.check("codes retire")?;
        let now: Code = self.client.get(&self.path(code, "")).await?;
        let place = format!("{} {code}", now.namespace);
        let retires = format!("{place}: retires it for good, none of its other numbers is issued");
        self.report.say(&retires)?;
        if !confirmation.is_given()? {
            return self.document(false, vec![now]);
        }
        let path = self.path(code, "/retire");
        let none = None::<&Value>;
        let code: Code = self.client.change(Method::POST, &path, HeaderMap::new(), none).await?;
        let stop = "retired; nodes that have numbers in hand stop within 30 s";
        self.report.say(&format!("{place}: {stop}"))?;
        self.document(true, vec![code])
    }

    async fn change(
        self,
        method: Method,
        code: &str,
        action: &str,
        headers: HeaderMap,
        body: &serde_json::Map<String, Value>,
    ) -> Result<Code, Failure> {
        self.client.change(method, &self.path(code, action), headers, Some(body)).await
    }

    fn path(self, code: &str, action: &str) -> String {
        let query = self.namespace.map(|name| ("namespace", name));
        path(&format!("/codes/{code}{action}"), query)
    }

    /// Says and prints a code that was changed.
    fn told(self, code: Code) -> Result<(), Failure> {
        self.report.say(&code.state())?;
        self.document(true, vec![code])
    }

    fn document(self, done: bool, codes: Vec<Code>) -> Result<(), Failure> {
        self.report.document(&Document { done: Some(done), codes, would_be: None })
    }
}

/// Appends a query, whose values are escaped.
fn path<'a>(route: &str, query: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    if query.is_empty() { route.to_owned() } else { format!("{route}?{query}") }
}
