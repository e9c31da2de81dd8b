//! Rows of the report.

use raindrop_bench::number::grouped;

use super::{
    figures::{Case, Figures, cpu, generator_busy, latency, requests_per_second, server_busy},
    load::Measured,
};

/// The columns that [`row`] fills.
pub(crate) const COLUMNS: [&str; 14] = [
    "server",
    "request",
    "requests/s",
    "IDs/s",
    "p50 µs",
    "p99 µs",
    "p999 µs",
    "CPU µs/request",
    "server busy",
    "generator busy",
    "requests/s ÷ axum",
    "CPU ÷ axum",
    "p99 ÷ axum",
    "failed",
];

/// The figures of a case; the ratios are to `axum`.
pub(crate) fn row(case: &Case<'_>, figures: &Figures, axum: Option<&Figures>) -> Vec<String> {
    let median = |of: &dyn Fn(&Measured) -> f64| figures.median(of);
    let ratio = |of: &dyn Fn(&Measured) -> f64| axum.and_then(|axum| figures.ratio(axum, of));
    vec![
        case.server.name.to_owned(),
        case.what.clone(),
        whole(median(&requests_per_second)),
        whole(figures.ids_per_second()),
        whole(median(&latency(0.5))),
        whole(median(&latency(0.99))),
        whole(median(&latency(0.999))),
        decimal(median(&cpu)),
        percent(median(&server_busy)),
        percent(median(&generator_busy)),
        decimal(ratio(&requests_per_second)),
        decimal(ratio(&cpu)),
        decimal(ratio(&latency(0.99))),
        figures.failures().to_string(),
    ]
}

/// A figure, with its thousands set apart; a dash where there is none.
pub(crate) fn whole(figure: Option<f64>) -> String {
    figure.map_or_else(|| "–".to_owned(), grouped)
}

/// A figure with two decimals.
pub(crate) fn decimal(figure: Option<f64>) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.2}"))
}

fn percent(figure: Option<f64>) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{:.0} %", figure * 100.0))
}

/// Bytes as MiB.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}
