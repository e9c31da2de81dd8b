//! Plots as SVG: text stays text, and colours follow the reader's light or dark theme.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const STYLE: &str = "<style>\
    text{font:13px system-ui,sans-serif;fill:#57606a}\
    .title{font-size:15px;font-weight:600}\
    .end{text-anchor:end}.middle{text-anchor:middle}\
    .grid{stroke:#8c959f;stroke-opacity:.3}\
    .line{fill:none;stroke-width:2}\
    @media (prefers-color-scheme:dark){text{fill:#b1bac4}}\
    </style>\n";
/// Told apart by readers who do not see all colours, on light and on dark ground.
const COLOURS: [&str; 8] =
    ["#d55e00", "#0072b2", "#8c959f", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5cd6"];

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it stands for.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// The entry of the legend that it belongs to.
    pub kind: usize,
}

/// Horizontal bars, each with its value at the end. `legend` names the kinds of bars.
pub fn bars(title: &str, unit: &str, legend: &[&str], bars: &[Bar]) -> String {
    const RIGHT: f64 = 90.0;
    const STEP: f64 = 24.0;
    let left = bars.iter().map(|bar| width_of(&bar.label)).fold(0.0, f64::max) + 20.0;
    let top = 64.0;
    let most = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let mut drawing = Drawing::new(title, top + STEP * bars.len() as f64 + 12.0);
    drawing.legend(legend, 46.0);
    for (at, bar) in bars.iter().enumerate() {
        let y = top + STEP * at as f64;
        let width = (WIDTH - left - RIGHT) * bar.value / most;
        drawing.text(left - 8.0, y + 14.0, "end", &bar.label);
        drawing.put(&format!(
            r#"<rect x="{left:.1}" y="{y:.1}" width="{:.1}" height="18" rx="2" fill="{}"/>"#,
            width.max(1.0),
            colour(bar.kind)
        ));
        let value = format!("{} {unit}", figure(bar.value));
        drawing.text(left + width + 6.0, y + 14.0, "start", &value);
    }
    drawing.finish()
}

/// A line through points (x, y).
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, by ascending x.
    pub points: Vec<(f64, f64)>,
}

/// One axis of a chart of lines.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    /// What it shows, with the unit.
    pub label: &'a str,
    /// Whether it is logarithmic; otherwise it begins at 0.
    pub logarithmic: bool,
}

/// Lines over one pair of axes, with a legend.
pub fn lines(title: &str, x: Axis<'_>, y: Axis<'_>, lines: &[Line]) -> String {
    const LEFT: f64 = 70.0;
    const BOTTOM: f64 = 370.0;
    const TOP: f64 = 70.0;
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = Scale::new(x, points().map(|point| point.0), LEFT, WIDTH - 30.0);
    let up = Scale::new(y, points().map(|point| point.1), BOTTOM, TOP);
    let mut drawing = Drawing::new(title, BOTTOM + 56.0);
    let names: Vec<_> = lines.iter().map(|line| line.name.as_str()).collect();
    drawing.legend(&names, 46.0);
    for tick in up.ticks() {
        let at = up.at(tick);
        drawing.rule(LEFT, at, WIDTH - 30.0, at);
        drawing.text(LEFT - 8.0, at + 4.0, "end", &label(tick));
    }
    for tick in across.ticks() {
        let at = across.at(tick);
        drawing.rule(at, TOP, at, BOTTOM);
        drawing.text(at, BOTTOM + 20.0, "middle", &label(tick));
    }
    drawing.text(f64::midpoint(LEFT, WIDTH - 30.0), BOTTOM + 44.0, "middle", x.label);
    drawing.put(&format!(
        r#"<text class="middle" transform="translate(16 {}) rotate(-90)">{}</text>"#,
        f64::midpoint(TOP, BOTTOM),
        escaped(y.label)
    ));
    for (kind, line) in lines.iter().enumerate() {
        let places: Vec<_> =
            line.points.iter().map(|point| (across.at(point.0), up.at(point.1))).collect();
        let path: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        drawing.put(&format!(
            r#"<polyline class="line" stroke="{}" points="{}"/>"#,
            colour(kind),
            path.join(" ")
        ));
        for (x, y) in places {
            drawing.put(&format!(
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{}"/>"#,
                colour(kind)
            ));
        }
    }
    drawing.finish()
}

const fn colour(kind: usize) -> &'static str {
    COLOURS[kind % COLOURS.len()]
}

/// Three significant digits, with thousands set apart.
fn figure(value: f64) -> String {
    let digits = if value >= 100.0 || value.fract() == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$}");
    if value < 10_000.0 {
        return text;
    }
    let mut apart = String::new();
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at).is_multiple_of(3) {
            apart.push('\u{202f}');
        }
        apart.push(digit);
    }
    apart
}

/// The shortest figure, for an axis.
fn label(value: f64) -> String {
    let figure = figure(value);
    if figure.contains('.') { figure.trim_end_matches('0').to_owned() } else { figure }
}

/// About how wide a text is: no font is asked.
fn width_of(text: &str) -> f64 {
    7.0 * text.chars().count() as f64
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Where values of an axis are on the drawing.
struct Scale {
    logarithmic: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(axis: Axis<'_>, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (least, most) = values
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let logarithmic = axis.logarithmic;
        let (low, high) = if logarithmic {
            (10_f64.powf(least.log10().floor()), 10_f64.powf(most.log10().ceil()))
        } else {
            (0.0, round_step(most) * (most / round_step(most)).ceil())
        };
        Self { logarithmic, low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value / self.low).log10() / (self.high / self.low).log10().max(1.0)
        } else {
            value / self.high
        };
        self.from + (self.to - self.from) * part
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|decade| self.low * 10_f64.powi(decade)).collect();
        }
        let step = round_step(self.high);
        let count = (self.high / step).round() as i32;
        (0..=count).map(|at| step * f64::from(at)).collect()
    }
}

/// 1, 2 or 5 times a power of ten, of which four to ten make `most`.
fn round_step(most: f64) -> f64 {
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let steps = [5.0, 2.0, 1.0].map(|step| step * power);
    steps.into_iter().find(|step| *step * 4.0 <= most).unwrap_or(power)
}

struct Drawing(String);

impl Drawing {
    fn new(title: &str, height: f64) -> Self {
        let title = escaped(title);
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n\
             {STYLE}<text class=\"title\" x=\"12\" y=\"22\">{title}</text>\n"
        ))
    }

    fn put(&mut self, element: &str) {
        writeln!(self.0, "{element}").expect("a string takes it");
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escaped(text);
        self.put(&format!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#));
    }

    fn rule(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        self.put(&format!(
            r#"<line class="grid" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    fn legend(&mut self, names: &[&str], y: f64) {
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

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_begin_and_end_at_round_values() {
        let linear = Axis { label: "", logarithmic: false };
        let scale = Scale::new(linear, [3.0, 37.0].into_iter(), 0.0, 100.0);
        assert_eq!(scale.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!((scale.at(0.0), scale.at(20.0)), (0.0, 50.0));

        let logarithmic = Axis { label: "", logarithmic: true };
        let scale = Scale::new(logarithmic, [1.0, 400.0].into_iter(), 100.0, 0.0);
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!((scale.at(1.0), scale.at(1000.0)), (100.0, 0.0));
    }

    #[test]
    fn figures_are_short() {
        let shown = [0.5678, 5.678, 56.78, 567.8, 56_780.0, 3.0].map(figure);
        assert_eq!([0.1, 0.25, 100.0].map(label), ["0.1", "0.25", "100"]);
        assert_eq!(shown, ["0.57", "5.68", "56.8", "568", "56\u{202f}780", "3"]);
    }

    #[test]
    fn names_cannot_break_the_drawing() {
        let bar = Bar { label: "a < b & c".to_owned(), value: 1.0, kind: 0 };
        let drawn = bars("t", "ns", &["kind"], &[bar]);
        assert!(drawn.contains("a &lt; b &amp; c"), "{drawn}");
    }
}
