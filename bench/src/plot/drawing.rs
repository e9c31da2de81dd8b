//! Elements of SVG.

use std::fmt::Write as _;

pub(super) const WIDTH: f64 = 760.0;
const STYLE: &str = "<style>\
    text{font:13px system-ui,sans-serif;fill:#6e7781}\
    .title{font-size:15px;font-weight:600}\
    .end{text-anchor:end}.middle{text-anchor:middle}\
    .grid{stroke:#8c959f;stroke-opacity:.3}\
    .line{fill:none;stroke-width:2}\
    @media (prefers-color-scheme:dark){text{fill:#b1bac4}}\
    </style>\n";
/// Told apart by readers who do not see all colours, on light and on dark ground.
const COLOURS: [&str; 8] =
    ["#d55e00", "#0072b2", "#8c959f", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5cd6"];

/// An SVG document in the making.
pub(super) struct Drawing(String);

impl Drawing {
    pub(super) fn new(title: &str, height: f64) -> Self {
        let title = escaped(title);
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n\
             {STYLE}<text class=\"title\" x=\"12\" y=\"22\">{title}</text>\n"
        ))
    }

    pub(super) fn put(&mut self, element: &str) {
        writeln!(self.0, "{element}").expect("a string takes it");
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escaped(text);
        self.put(&format!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#));
    }

    pub(super) fn rule(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        self.put(&format!(
            r#"<line class="grid" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    pub(super) fn legend(&mut self, names: &[&str], y: f64) {
        let mut x = 12.0;
        for (kind, name) in names.iter().enumerate() {
            self.put(&format!(
                r#"<rect x="{x:.1}" y="{:.1}" width="12" height="12" rx="2" fill="{}"/>"#,
                y - 11.0,
                colour(kind)
            ));
            self.text(x + 18.0, y, "start", name);
            x += 38.0 + width_of(name);
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

pub(super) const fn colour(kind: usize) -> &'static str {
    COLOURS[kind % COLOURS.len()]
}

/// About how wide a text is: no font is asked.
pub(super) fn width_of(text: &str) -> f64 {
    7.0 * text.chars().count() as f64
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
