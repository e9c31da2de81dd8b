//! The console: pages for people, written by hand, with their files. The API document leaves out
//! their routes: `/`, `/docs` and `/console/{file}`.
//!
//! There is no build step, and nothing is loaded from elsewhere. The settings in a page say what
//! its listener serves, so that the page offers nothing that the listener would refuse.

mod settings;

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, Uri, header},
    response::Response,
};

use self::settings::Settings;
use super::{about::About, conditional::Document};
use crate::server::{
    extract::{Client, InPath},
    response::{Problem, ProblemCode},
    state::AppState,
};

/// The placeholder for a page's settings.
const SETTINGS: &str = "{{settings}}";

/// The pages by their paths.
const PAGES: [(&str, &str); 2] =
    [("/", include_str!("page/index.html")), ("/docs", include_str!("page/docs.html"))];

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        [
            ("style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
            $(($name, SCRIPT, include_str!(concat!("page/", $name)))),*
        ]
    };
}

/// The files that the pages load from `/console/`: name, content type and content.
const FILES: [(&str, &str, &str); 27] = scripts![
    "api.js",
    "app.js",
    "bits.js",
    "borders.js",
    "change.js",
    "chart.js",
    "cluster.js",
    "codes.js",
    "dialog.js",
    "docs.js",
    "dom.js",
    "encodings.js",
    "i18n.js",
    "inspect.js",
    "list.js",
    "live.js",
    "overview.js",
    "page.js",
    "parsed.js",
    "patch.js",
    "plan.js",
    "poll.js",
    "settings.js",
    "tip.js",
    "try.js",
    "zh.js",
];

/// The Content-Security-Policy of the pages: they load their own files, send requests to this
/// service, run no inline script or style, and cannot be framed.
const POLICY: (HeaderName, HeaderValue) = (
    header::CONTENT_SECURITY_POLICY,
    HeaderValue::from_static(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
);

/// Answers with the console, the API document as a page, or a file of these.
pub(in crate::server) async fn page(
    State(state): State<Arc<AppState>>,
    Extension(about): Extension<Arc<About>>,
    client: Client,
    InPath(file): InPath,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    about.console(&state).answer(&client, file.as_deref().unwrap_or(uri.path()), &headers)
}

/// The pages and files of one listener's console.
#[derive(Debug)]
pub(in crate::server) struct Console(Vec<(&'static str, Document)>);

impl Console {
    /// Builds the console of a listener that serves these paths.
    pub(in crate::server) fn new(state: &AppState, needs_token: bool, paths: &[String]) -> Self {
        let settings = Settings::new(state, needs_token, paths).in_attribute();
        let page = |(path, text): (&'static str, &str)| {
            (path, Document::new("text/html; charset=utf-8", text.replace(SETTINGS, &settings)))
        };
        let file = |(name, content_type, text): (&'static str, _, &str)| {
            (name, Document::new(content_type, small(name, text)))
        };
        Self(PAGES.into_iter().map(page).chain(FILES.into_iter().map(file)).collect())
    }

    /// Answers with the page of this path, or with the file of this name.
    pub(in crate::server) fn answer(
        &self,
        client: &Client,
        name: &str,
        headers: &HeaderMap,
    ) -> Result<Response, Problem> {
        let Some((_, document)) = self.0.iter().find(|(known, _)| name == *known) else {
            let detail = format!("the console has no file {name:?}");
            return Err(Problem::new(ProblemCode::NotFound, detail));
        };
        let mut response = document.answer(client, headers)?;
        response.headers_mut().extend([POLICY]);
        Ok(response)
    }
}

/// Returns a file as it is sent: without comments and needless spaces.
fn small(name: &str, text: &str) -> String {
    const CSS: &[(&str, &str)] =
        &[(" { ", "{"), (" }", "}"), ("; ", ";"), (", ", ","), (" > ", ">"), ("\n", "")];
    // Only sequences that occur in no text of the scripts.
    const SCRIPT: &[(&str, &str)] = &[(" => ", "=>"), (" === ", "==="), (" && ", "&&")];
    let signs = if name.ends_with(".css") { CSS } else { SCRIPT };
    let text = without_margins(text);
    signs.iter().fold(text, |text, (long, short)| text.replace(long, short))
}

/// Removes indentation, empty lines and comment lines, which only developers read.
fn without_margins(text: &str) -> String {
    let is_read = |line: &&str| !["//", "/*"].iter().any(|sign| line.starts_with(sign));
    let lines = text.lines().map(str::trim_start).filter(|line| !line.is_empty()).filter(is_read);
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds how long a page takes to load on a telephone.
    const MOST_BYTES: usize = 100_000;
    /// Bounds what readers of Chinese load in addition.
    const MOST_BYTES_OF_CHINESE: usize = 20_000;

    /// Returns the files that a page loads, in any order: those that it or one of its files names.
    /// A file that is imported later, by `import('./name')`, is not among them.
    fn loaded_by(page: &str) -> Vec<(&'static str, &'static str)> {
        let mut texts = vec![page];
        let mut loaded = Vec::new();
        while let Some(text) = texts.pop() {
            for (name, _, file) in FILES {
                let is_named = [format!("\"/console/{name}\""), format!("from './{name}'")]
                    .iter()
                    .any(|reference| text.contains(reference));
                if is_named && !loaded.contains(&(name, file)) {
                    loaded.push((name, file));
                    texts.push(file);
                }
            }
        }
        loaded
    }

    #[test]
    fn every_page_is_small() {
        for (path, page) in PAGES {
            let files = loaded_by(page);
            let all: usize = files.iter().map(|(name, text)| small(name, text).len()).sum();
            assert!(files.len() > 5, "{path}: {files:?}");
            assert!(page.len() + all < MOST_BYTES, "{path}: {} bytes", page.len() + all);
        }
        let (name, _, chinese) = FILES[FILES.len() - 1];
        assert_eq!(name, "zh.js");
        assert!(small(name, chinese).len() < MOST_BYTES_OF_CHINESE);
    }

    #[test]
    fn every_file_is_loaded_by_a_page_or_by_another_file() {
        let texts = || FILES.iter().map(|(_, _, text)| *text).chain(PAGES.map(|(_, text)| text));
        for (name, ..) in FILES {
            let is_named = |text: &str| text.contains(&format!("/{name}"));
            assert!(texts().any(is_named), "{name}");
        }
        for (path, text) in PAGES {
            assert_eq!(text.matches(SETTINGS).count(), 1, "{path}");
        }
    }
}
