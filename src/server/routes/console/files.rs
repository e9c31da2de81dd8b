//! The files of the console, embedded.

/// The placeholder for a page's settings.
pub(super) const SETTINGS: &str = "{{settings}}";

/// The pages by their paths.
pub(super) const PAGES: [(&str, &str); 2] =
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
pub(super) const FILES: [(&str, &str, &str); 27] = scripts![
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
