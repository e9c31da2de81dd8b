//! Plots as SVG: text stays text, and its colour follows the reader's light or dark theme.

use std::io;

use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, ValueFormatter},
    },
    drawing::DrawingAreaErrorKind,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::number::{grouped, significant};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// The width of a plot in pixels.
const WIDTH: u32 = 760;
const HEADER_HEIGHT: u32 = 60;
const BAR_HEIGHT: u32 = 24;
const LINES_HEIGHT: u32 = 366;

/// Colours that readers with colour vision deficiencies can distinguish, on light and dark ground.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x8c, 0x95, 0x9f),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
];
const TEXT: RGBColor = RGBColor(0x6e, 0x77, 0x81);
/// Takes precedence over the attributes that plotters writes.
const STYLE: &str = "<style>text{font-family:system-ui,sans-serif}\
    @media (prefers-color-scheme:dark){text{fill:#b1bac4}}</style>";

/// One bar of [`bars`].
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its name.
    pub label: String,
    /// Its length, not negative.
    pub value: f64,
    /// The index of its legend entry.
    pub kind: usize,
}

/// Draws horizontal bars, each with its value at the end. `legend` names the kinds of bars.
pub fn bars(title: &str, unit: &str, legend: &[&str], bars: &[Bar]) -> String {
    let height = BAR_HEIGHT * bars.len() as u32 + 10;
    draw(title, legend, height, |area| {
        let widths = bars.iter().map(|bar| area.estimate_text_size(&bar.label, &text()));
        let labels = widths.map(|size| size.map_or(0, |(width, _)| width)).max().unwrap_or(0);
        let longest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
        let mut chart = ChartBuilder::on(area)
            .margin_right(90)
            .margin_bottom(10)
            .y_label_area_size(labels + 16)
            .build_cartesian_2d(0.0..longest, bars.len() as f64..0.0)?;
        let rows = || bars.iter().zip(0..).map(|(bar, row)| (bar, f64::from(row)));
        chart.draw_series(rows().map(|(bar, row)| {
            let corners = [(0.0, row + 0.125), (bar.value, row + 0.875)];
            Rectangle::new(corners, colour(bar.kind).filled())
        }))?;
        chart.draw_series(rows().map(|(bar, row)| {
            let label = Text::new(bar.label.clone(), (-8, 0), text_at(HPos::Right));
            EmptyElement::at((0.0, row + 0.5)) + label
        }))?;
        chart.draw_series(rows().map(|(bar, row)| {
            let value = format!("{} {unit}", significant(bar.value));
            EmptyElement::at((bar.value, row + 0.5)) + Text::new(value, (6, 0), text_at(HPos::Left))
        }))?;
        Ok(())
    })
}

/// One line of [`lines`].
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points (x, y), by ascending x.
    pub points: Vec<(f64, f64)>,
}

/// The vertical axis of [`lines`].
#[derive(Clone, Copy, Debug)]
pub enum Axis<'a> {
    /// Begins at 0. Its text names what it shows, with the unit.
    Linear(&'a str),
    /// Begins and ends at a power of ten.
    Logarithmic(&'a str),
}

/// Draws lines over a logarithmic horizontal axis, with a legend. Values on a logarithmic axis have
/// to be positive.
pub fn lines(title: &str, x: &str, y: Axis<'_>, lines: &[Line]) -> String {
    let names: Vec<_> = lines.iter().map(|line| line.name.as_str()).collect();
    let values = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let (least, most) = (values.clone().fold(f64::MAX, f64::min), values.fold(0.0, f64::max));
    draw(title, &names, LINES_HEIGHT, |area| match y {
        Axis::Linear(y) => draw_lines(area, x, y, 0.0..most * 1.05, lines),
        Axis::Logarithmic(y) => {
            let exponents = least.log10().floor() as i32..=most.log10().ceil() as i32;
            let decades: Vec<_> = exponents.map(|exponent| 10_f64.powi(exponent)).collect();
            draw_lines(area, x, y, logarithmic(decades), lines)
        }
    })
}

fn draw_lines<Y>(area: &Area<'_>, x_label: &str, y_label: &str, y: Y, lines: &[Line]) -> Drawn
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut x: Vec<_> = lines.iter().flat_map(|line| &line.points).map(|point| point.0).collect();
    x.sort_by(f64::total_cmp);
    x.dedup();
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(30)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(logarithmic(x), y)?;
    let grid = TEXT.mix(0.3);
    chart
        .configure_mesh()
        .x_desc(x_label)
        .y_desc(y_label)
        .x_label_formatter(&|value| tick(*value))
        .y_label_formatter(&|value| tick(*value))
        .label_style(text())
        .axis_style(grid)
        .bold_line_style(grid)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (line, kind) in lines.iter().zip(0..) {
        let style = colour(kind).filled().stroke_width(2);
        chart.draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(3))?;
    }
    Ok(())
}

/// Returns a logarithmic axis from the first to the last of these ticks, which ascend.
fn logarithmic(
    ticks: Vec<f64>,
) -> impl AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>> {
    let (first, last) = (ticks.first().copied(), ticks.last().copied());
    (first.unwrap_or(1.0)..last.unwrap_or(1.0)).log_scale().with_key_points(ticks)
}

/// Formats a value on an axis.
fn tick(value: f64) -> String {
    if value.fract() == 0.0 { grouped(value) } else { value.to_string() }
}

/// Draws the title, the legend and, below them, a plot of this height.
fn draw(title: &str, legend: &[&str], height: u32, plot: impl Fn(&Area<'_>) -> Drawn) -> String {
    let mut svg = String::new();
    let mut drawn = || -> Drawn {
        let size = (WIDTH, HEADER_HEIGHT + height);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let (header, below) = root.split_vertically(HEADER_HEIGHT);
        let style = ("sans-serif", 19, FontStyle::Bold, &TEXT).into_text_style(&header);
        header.draw_text(title, &style, (12, 10))?;
        let mut x = 12;
        for (name, kind) in legend.iter().zip(0..) {
            header.draw(&Rectangle::new([(x, 36), (x + 12, 48)], colour(kind).filled()))?;
            header.draw_text(name, &text_at(HPos::Left), (x + 18, 42))?;
            x += 38 + header.estimate_text_size(name, &text())?.0 as i32;
        }
        plot(&below)?;
        root.present()
    };
    drawn().expect("a string can be written");
    svg.replacen('\n', &format!("\n{STYLE}\n"), 1)
}

fn colour(kind: usize) -> RGBColor {
    COLOURS[kind % COLOURS.len()]
}

fn text() -> TextStyle<'static> {
    ("sans-serif", 16).into_font().color(&TEXT)
}

fn text_at(anchor: HPos) -> TextStyle<'static> {
    text().pos(Pos::new(anchor, VPos::Center))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let bar = Bar { label: "a < b & c".to_owned(), value: 1.0, kind: 0 };
        let drawn = bars("t", "ns", &["kind"], &[bar]);
        assert!(drawn.contains("a &lt; b &amp; c"), "{drawn}");
    }

    #[test]
    fn plots_may_lack_points() {
        for points in [vec![], vec![(8.0, 5.0)]] {
            for axis in [Axis::Linear("y"), Axis::Logarithmic("y")] {
                let line = Line { name: "line".to_owned(), points: points.clone() };
                assert!(lines("t", "x", axis, &[line]).ends_with("</svg>\n"));
            }
        }
        assert!(bars("t", "ns", &["kind"], &[]).ends_with("</svg>\n"));
    }
}
