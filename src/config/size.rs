//! Sizes in bytes such as `64MiB`.

/// The form of a size, for error messages.
pub(super) const FORM: &str = "a size with its unit such as 512KiB, 64MiB or 1GiB";

const UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Parses a size; a bare number is refused, since it could mean any unit.
pub(super) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim_end(), unit)))?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(*unit)
}

/// Formats a size so that [`parse`] reads it back, in the largest unit that divides it.
pub(super) fn format(size: u64) -> String {
    let (name, unit) =
        UNITS.into_iter().rev().find(|(_, unit)| size.is_multiple_of(*unit)).unwrap_or(UNITS[0]);
    format!("{}{name}", size / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_units() {
        for (text, size) in [("512KiB", 512 << 10), ("64MiB", 64 << 20), ("1 GiB", 1 << 30)] {
            assert_eq!(parse(text), Some(size), "{text}");
        }
        for text in ["", "64", "64MB", "-1MiB", "+1MiB", "1.5GiB", "MiB", "99999999999999GiB"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn formatted_sizes_can_be_parsed() {
        for text in ["4KiB", "64MiB", "1GiB", "1025KiB"] {
            assert_eq!(format(parse(text).expect("a size")), text);
        }
    }
}
