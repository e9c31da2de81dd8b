//! Makes untrusted text safe for logs and terminals.

use std::borrow::Cow;

/// Escapes, as JSON does, the characters that a terminal would obey or a reader would take for the
/// end of a line: control characters, line ends, and marks that change the direction of text. The
/// result is one line. Escaping it again changes nothing.
///
/// Use it for every text that an attacker may have chosen: errors of a store or of a peer, and
/// names that are stored.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            _ if is_obeyed(letter) => escaped += &format!("\\u{:04x}", u32::from(letter)),
            _ => escaped.push(letter),
        }
    }
    escaped.into()
}

/// Escapes each line of a text of several lines.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter| letter != '\n' && is_obeyed(letter)) {
        return text.into();
    }
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(visible).collect();
    lines.join("\n").into()
}

/// Returns whether a terminal or a program that reads lines acts on this character instead of
/// showing it.
fn is_obeyed(letter: char) -> bool {
    match letter {
        // Line and paragraph separators, which some readers of JSON lines treat as line ends.
        '\u{2028}' | '\u{2029}' => true,
        // Direction marks, embeddings, overrides and isolates: they reorder the text on the screen.
        '\u{61c}' | '\u{200e}' | '\u{200f}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // C0, DEL and C1.
        _ => letter.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_move_the_cursor_or_end_the_line_are_escaped() {
        for (text, shown) in [
            ("node-7 pod", "node-7 pod"),
            ("机器 é \\n", "机器 é \\n"),
            ("node-7\tpod\n", "node-7\\tpod\\n"),
            ("a\u{1b}[2Jb\r\u{7}", "a\\u001b[2Jb\\r\\u0007"),
            ("\u{9b}31m\u{202e}x\u{7f}\u{85}", "\\u009b31m\\u202ex\\u007f\\u0085"),
            ("\u{2028}\u{2029}\u{200f}\u{2066}", "\\u2028\\u2029\\u200f\\u2066"),
        ] {
            assert_eq!(visible(text), shown);
            assert_eq!(visible(shown), shown, "escaped again");
        }
    }

    #[test]
    fn lines_of_a_text_stay_lines() {
        assert_eq!(visible_lines("a\nb\tc\n"), "a\nb\\tc\n");
        assert_eq!(visible_lines("a\n\u{1b}b\r\n"), "a\n\\u001bb\\r\n");
    }
}
