//! Values on an axis, and figures as text.

use super::Axis;

/// Where values of an axis are on the drawing.
pub(super) struct Scale {
    logarithmic: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    pub(super) fn new(
        axis: Axis<'_>,
        values: impl Iterator<Item = f64>,
        from: f64,
        to: f64,
    ) -> Self {
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

    pub(super) fn at(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value / self.low).log10() / (self.high / self.low).log10().max(1.0)
        } else {
            value / self.high
        };
        self.from + (self.to - self.from) * part
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
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

/// Three significant digits, with thousands set apart.
pub(super) fn figure(value: f64) -> String {
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
pub(super) fn label(value: f64) -> String {
    let figure = figure(value);
    if figure.contains('.') { figure.trim_end_matches('0').to_owned() } else { figure }
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
}
