//! Plots as SVG: text stays text, and colours follow the reader's light or dark theme.

mod drawing;
mod scale;

use self::{
    drawing::{Drawing, WIDTH, colour, width_of},
    scale::{Scale, figure, label},
};

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
        drawing::escaped(y.label)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_drawing() {
        let bar = Bar { label: "a < b & c".to_owned(), value: 1.0, kind: 0 };
        let drawn = bars("t", "ns", &["kind"], &[bar]);
        assert!(drawn.contains("a &lt; b &amp; c"), "{drawn}");
    }
}
