//! Numbers as text, for tables and plots.

/// Formats a value that is not negative: about three significant digits, at most two decimals,
/// and groups of three digits.
pub fn significant(value: f64) -> String {
    if value >= 99.95 {
        grouped(value)
    } else {
        let decimals = if value >= 9.995 { 1 } else { 2 };
        format!("{value:.decimals$}")
    }
}

/// Formats a value that is not negative as an integer, with a narrow space between groups of
/// three digits.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_significant() {
        let shown = [0.5678, 5.678, 9.996, 56.78, 99.96, 567.8, 56_780.0].map(significant);
        assert_eq!(shown, ["0.57", "5.68", "10.0", "56.8", "100", "568", "56\u{202f}780"]);
    }

    #[test]
    fn thousands_are_grouped() {
        let shown = [7.6, 999.0, 1234.0, 1_234_567.0].map(grouped);
        assert_eq!(shown, ["8", "999", "1\u{202f}234", "1\u{202f}234\u{202f}567"]);
    }
}
