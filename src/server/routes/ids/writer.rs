//! Writes the bodies of ID responses. The JSON is written by hand, because this is the hot path of
//! the service.

use std::{
    borrow::Cow,
    io::{self, Write},
    vec,
};

use crate::core::{
    encoding::{Encoder, Encoding, write_decimal, write_decimal_range},
    id::Id,
    issue::{IdRange, RepeatedRange, Run},
    layout::Layout,
    segment::{AroundNumber, Numbers, TextForm},
};

/// The most bytes of the head of a response with ranges: the canonical text of a layout, a prefix,
/// and numbers.
const LARGEST_HEAD: usize = 1024;

/// The IDs that are written between two checks of a piece's length.
const AT_A_TIME: u64 = 64;

/// The IDs of one claim.
pub(super) trait Batch:
    ExactSizeIterator<Item = Id> + Clone + Send + Unpin + 'static
{
    /// Takes the next IDs that are evenly spaced, up to this many.
    fn next_range(&mut self, at_most: u64) -> Option<IdRange>;

    /// Takes the next IDs that fit into one object of `format=range`.
    fn next_repeated(&mut self) -> Option<RepeatedRange> {
        self.next_range(u64::MAX).map(RepeatedRange::from)
    }

    fn into_ranges(mut self) -> impl Iterator<Item = IdRange> {
        std::iter::from_fn(move || self.next_range(u64::MAX))
    }
}

impl Batch for Run {
    fn next_range(&mut self, at_most: u64) -> Option<IdRange> {
        self.next_range(at_most)
    }

    fn next_repeated(&mut self) -> Option<RepeatedRange> {
        self.next_repeated()
    }
}

impl Batch for Numbers {
    fn next_range(&mut self, at_most: u64) -> Option<IdRange> {
        self.next_range(at_most)
    }
}

/// IDs for a past time, which follow each other within one tick.
impl Batch for vec::IntoIter<Id> {
    fn next_range(&mut self, at_most: u64) -> Option<IdRange> {
        let ids = self.as_slice();
        let step = ids.first().zip(ids.get(1)).map_or(1, |(one, next)| next.get() - one.get());
        debug_assert!(ids.windows(2).all(|pair| pair[1].get() - pair[0].get() == step));
        let count = ids.len().min(usize::try_from(at_most).unwrap_or(usize::MAX));
        let (first, last) = (*ids.first()?, *ids.get(count.checked_sub(1)?)?);
        self.nth(count - 1)?;
        Some(IdRange { first, last, step, count: count as u64 })
    }
}

/// The format of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFormat {
    /// JSON strings.
    Strings,
    /// JSON numbers.
    Numbers,
    /// JSON ranges.
    Ranges,
    /// One ID per line.
    Lines,
}

/// The format of a body, and of each ID in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts {
    pub(super) format: BodyFormat,
    pub(super) encoding: Encoding,
    pub(super) is_padded: bool,
    /// The form of the texts, in decimal, of a code that has one.
    pub(super) form: Option<TextForm>,
}

impl Texts {
    /// Returns whether IDs are plain decimal, which is written fastest.
    pub(super) fn are_plain(self) -> bool {
        self.encoding == Encoding::Decimal && !self.is_padded
    }

    /// Returns the most bytes that an ID can take, without its prefix.
    const fn longest(self) -> usize {
        match self.encoding {
            // At most 64 bytes: a time with a year of six digits, and a digit for every other bit.
            Encoding::Friendly => 64,
            Encoding::Uuid7 => 36,
            Encoding::Typeid => 26,
            _ => 19,
        }
    }

    /// Returns the most bytes that a body of this many IDs, or ranges, can take.
    pub(super) fn largest_length(self, prefix: &str, count: u32) -> usize {
        let each = match self.format {
            // Four numbers of at most 19 digits and two counts, with their names and quotes.
            BodyFormat::Ranges => 192,
            // Two quotes and a comma, or a line feed.
            _ => self.longest() + self.form.map_or(prefix.len(), |_| TextForm::LONGEST) + 3,
        };
        let around = if self.format == BodyFormat::Ranges { LARGEST_HEAD } else { 16 };
        each * count as usize + around
    }

    pub(super) fn writer<'a>(&'a self, prefix: &'a str, layout: Option<&'a Layout>) -> Writer<'a> {
        let encoder = || Encoder::new(self.encoding, self.is_padded, layout);
        let encoder = (!self.are_plain()).then(|| encoder().expect("checked with the request"));
        let (prefix, suffix, digits) = match &self.form {
            Some(form) => {
                let AroundNumber { before, after, digits } = form.around();
                (before.into(), after.into(), digits)
            }
            None => (prefix.into(), Cow::Borrowed(""), 1),
        };
        Writer { format: self.format, prefix, suffix, digits, encoder, longest: self.longest() }
    }
}

/// Writes the texts of IDs, and the JSON around them.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    format: BodyFormat,
    prefix: Cow<'a, str>,
    suffix: Cow<'a, str>,
    /// How many digits a plain number has at least.
    digits: usize,
    /// Encodes each ID; `None` for plain decimal.
    encoder: Option<Encoder<'a>>,
    /// The most bytes of an encoded ID.
    longest: usize,
}

impl Writer<'_> {
    /// Returns the body of a response with one ID.
    pub(super) fn one(&self, id: Id) -> Vec<u8> {
        let [before, after] = match self.format {
            BodyFormat::Lines => ["", "\n"],
            BodyFormat::Numbers => [r#"{"id":"#, "}"],
            BodyFormat::Strings | BodyFormat::Ranges => [r#"{"id":""#, r#""}"#],
        };
        // Exact for plain decimal and UUIDs: `Bytes` would keep spare capacity until the response is
        // sent.
        let longest = if self.encoder.is_some() { self.longest } else { self.digits_of(id) };
        let length = before.len() + self.prefix.len() + longest + self.suffix.len() + after.len();
        let mut body = Vec::with_capacity(length);
        body.extend_from_slice(before.as_bytes());
        body.extend_from_slice(self.prefix.as_bytes());
        match self.encoder {
            None => {
                body.resize(body.len() + self.digits.saturating_sub(digits(id)), b'0');
                write_decimal(&mut body, id);
            }
            Some(encoder) => {
                write!(body, "{}", encoder.text(id)).expect("a vector takes any bytes");
            }
        }
        body.extend_from_slice(self.suffix.as_bytes());
        body.extend_from_slice(after.as_bytes());
        body
    }

    /// Writes the JSON before a batch; for ranges, that is `head`.
    pub(super) fn begin(&self, head: &str, body: &mut Vec<u8>) {
        match self.format {
            BodyFormat::Lines => {}
            BodyFormat::Ranges => body.extend_from_slice(head.as_bytes()),
            BodyFormat::Strings | BodyFormat::Numbers => body.extend_from_slice(br#"{"ids":["#),
        }
    }

    /// Writes the JSON after a batch.
    pub(super) fn end(&self, body: &mut Vec<u8>) {
        if self.format != BodyFormat::Lines {
            // A claim has at least one ID, so the last byte is a comma.
            body.pop();
            body.extend_from_slice(b"]}");
        }
    }

    /// Returns the length in bytes of a whole batch; `None` if it is known only after every ID is
    /// written.
    pub(super) fn exact_length(&self, ids: &impl Batch) -> Option<u64> {
        // The bytes around all texts, less the comma that the last one lacks, and around each.
        let [around_all, around_each] = match self.format {
            BodyFormat::Lines => [0, 1],
            BodyFormat::Numbers => [r#"{"ids":[]}"#.len() as u64 - 1, 1],
            BodyFormat::Strings => [r#"{"ids":[]}"#.len() as u64 - 1, 3],
            BodyFormat::Ranges => return None,
        };
        if self.encoder.is_some() {
            return None;
        }
        let around_each = around_each + (self.prefix.len() + self.suffix.len()) as u64;
        let mut length = around_all;
        for range in ids.clone().into_ranges() {
            let each = self.digits_of(range.first);
            // The number of digits changes once in many years.
            if each != self.digits_of(range.last) {
                return None;
            }
            length += range.count * (each as u64 + around_each);
        }
        Some(length)
    }

    /// Writes the rest of a batch.
    pub(super) fn all(&self, ids: &mut impl Batch, body: &mut Vec<u8>) {
        while self.some(ids, body, u64::MAX) {}
    }

    /// Writes IDs until the body has about this many bytes. Returns whether the batch is complete.
    pub(super) fn until(&self, ids: &mut impl Batch, body: &mut Vec<u8>, length: usize) -> bool {
        loop {
            let before = body.len();
            self.some(ids, body, AT_A_TIME);
            if ids.len() == 0 {
                return true;
            }
            // The next ones are about as long as these.
            if body.len() + (body.len() - before) > length {
                return false;
            }
        }
    }

    /// Writes up to this many IDs, or one range. Returns whether any was left.
    fn some(&self, ids: &mut impl Batch, body: &mut Vec<u8>, at_most: u64) -> bool {
        let [before, after] = match self.format {
            BodyFormat::Lines => ["", "\n"],
            BodyFormat::Strings => ["\"", "\","],
            BodyFormat::Numbers => ["", ","],
            BodyFormat::Ranges => {
                let Some(repeated) = ids.next_repeated() else { return false };
                write_repeated(body, &repeated).expect("a vector takes any bytes");
                return true;
            }
        };
        let Some(range) = ids.next_range(at_most) else { return false };
        self.texts(body, &range, before, after);
        true
    }

    /// Writes the IDs of a range, each between `before` and `after`.
    fn texts(&self, body: &mut Vec<u8>, range: &IdRange, before: &str, after: &str) {
        let (with_prefix, with_suffix);
        let before = if self.prefix.is_empty() {
            before
        } else {
            with_prefix = [before, &*self.prefix].concat();
            &with_prefix
        };
        let after = if self.suffix.is_empty() {
            after
        } else {
            with_suffix = [&*self.suffix, after].concat();
            &with_suffix
        };
        match self.encoder {
            None if digits(range.first) >= self.digits => {
                write_decimal_range(body, range, before, after);
            }
            None => self.padded(body, *range, before, after),
            Some(encoder) => encoder.write_range(body, range, before, after),
        }
    }

    /// Writes plain numbers, the first of which has zeros in front. Those with equally many zeros
    /// are written together.
    fn padded(&self, body: &mut Vec<u8>, mut range: IdRange, before: &str, after: &str) {
        while range.count > 0 {
            let zeros = "0".repeat(self.digits.saturating_sub(digits(range.first)));
            // One past the largest number with as many digits; none, if numbers are written in full.
            let power = 1 + range.first.get().checked_ilog10().unwrap_or(0);
            let end = 10_u64.checked_pow(power).filter(|_| !zeros.is_empty());
            let first = range.first.get();
            let below = end.map_or(u64::MAX, |end| (end - first).div_ceil(range.step.max(1)));
            let count = below.min(range.count);
            let nth = |index: u64| Id::new(first + index * range.step).expect("within the range");
            let part = IdRange { last: nth(count - 1), count, ..range };
            write_decimal_range(body, &part, &[before, &zeros].concat(), after);
            range.count -= count;
            if range.count > 0 {
                range.first = nth(count);
            }
        }
    }

    /// The number of digits of a plain number, with zeros in front.
    fn digits_of(&self, id: Id) -> usize {
        digits(id).max(self.digits)
    }
}

/// Writes an object of `format=range`, and a comma.
fn write_repeated(body: &mut Vec<u8>, repeated: &RepeatedRange) -> io::Result<()> {
    let RepeatedRange { range: IdRange { first, step, count, .. }, repeat, stride } = repeated;
    let last = repeated.last();
    write!(body, r#"{{"first":"{first}","last":"{last}","step":"{step}","count":{count}"#)?;
    if *repeat > 1 {
        write!(body, r#","repeat":{repeat},"stride":"{stride}""#)?;
    }
    body.write_all(b"},")
}

/// The number of decimal digits of an ID.
fn digits(id: Id) -> usize {
    1 + id.get().checked_ilog10().unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::preset::Preset;

    const FORMATS: [BodyFormat; 4] =
        [BodyFormat::Strings, BodyFormat::Numbers, BodyFormat::Ranges, BodyFormat::Lines];

    /// Returns a run with ten IDs in each of many ticks.
    fn run(count: u64) -> Run {
        let layout = Preset::JsSafe.layout();
        let composer = layout.composer(3, 1).expect("fits");
        Run::new(composer, 1_000_000_007, 1_000_000_007 + count)
    }

    #[test]
    fn pieces_are_the_whole_cut() {
        let layout = Preset::JsSafe.layout();
        for format in FORMATS {
            for encoding in Encoding::ALL {
                for (count, prefix) in [(1, ""), (63, "order-"), (64, ""), (2_000, "x:")] {
                    let texts = Texts { format, encoding, is_padded: false, form: None };
                    let writer = texts.writer(prefix, Some(&layout));
                    let mut whole = Vec::new();
                    writer.begin(r#"{"ranges":["#, &mut whole);
                    writer.all(&mut run(count), &mut whole);
                    writer.end(&mut whole);
                    let mut ids = run(count);
                    let (mut pieces, mut is_last) = (Vec::new(), false);
                    writer.begin(r#"{"ranges":["#, &mut pieces);
                    while !is_last {
                        let mut piece = Vec::new();
                        is_last = writer.until(&mut ids, &mut piece, 5_000);
                        assert!(!piece.is_empty() && piece.len() <= 5_000 + 150, "{format:?}");
                        pieces.extend_from_slice(&piece);
                    }
                    writer.end(&mut pieces);
                    let [whole, pieces] =
                        [whole, pieces].map(|it| String::from_utf8(it).expect("ASCII"));
                    // The random bits of UUIDs differ each time they are written.
                    let cut = |text: &str| -> String {
                        let is_uuid = encoding.is_uuid() && format != BodyFormat::Ranges;
                        if is_uuid { text.len().to_string() } else { text.to_owned() }
                    };
                    assert_eq!(cut(&whole), cut(&pieces), "{format:?} {encoding} {count}");
                    let plain = encoding == Encoding::Decimal && format != BodyFormat::Ranges;
                    let length = plain.then_some(whole.len() as u64);
                    assert_eq!(writer.exact_length(&run(count)), length, "{format:?} {encoding}");
                    if format == BodyFormat::Lines {
                        let encoder = Encoder::new(encoding, false, &layout).expect("usable");
                        let one_by_one: String = run(count)
                            .map(|id| format!("{prefix}{}\n", encoder.text(id)))
                            .collect();
                        assert_eq!(cut(&whole), cut(&one_by_one), "{encoding} {count}");
                    }
                    let largest = texts.largest_length(prefix, count.try_into().expect("small"));
                    assert!(whole.len() <= largest, "{format:?} {encoding}: {}", whole.len());
                }
            }
        }
    }

    #[test]
    fn numbers_of_a_form_have_zeros_in_front() {
        let form: TextForm = "INV/{n:03}-A".parse().expect("a form");
        for (first, step, count) in [(0, 1, 1), (7, 1, 5), (95, 3, 400), (998, 1, 4), (1, 500, 7)] {
            let numbers = (0..count).map(|index| first + index * step);
            let ids: Vec<Id> =
                numbers.clone().map(|number| Id::new(number).expect("small")).collect();
            for (format, separator) in [(BodyFormat::Lines, "\n"), (BodyFormat::Strings, "\",\"")] {
                let (encoding, is_padded) = (Encoding::Decimal, false);
                let texts = Texts { format, encoding, is_padded, form: Some(form) };
                let writer = texts.writer("not this", None);
                let mut body = Vec::new();
                writer.begin("", &mut body);
                writer.all(&mut ids.clone().into_iter(), &mut body);
                writer.end(&mut body);
                let expected: Vec<String> = numbers.clone().map(|it| form.write(it)).collect();
                let expected = expected.join(separator);
                let expected = match format {
                    BodyFormat::Lines => format!("{expected}\n"),
                    _ => format!(r#"{{"ids":["{expected}"]}}"#),
                };
                if let Some(length) = writer.exact_length(&ids.clone().into_iter()) {
                    assert_eq!(length, expected.len() as u64);
                }
                let count = ids.len().try_into().expect("few");
                assert!(expected.len() <= texts.largest_length("", count));
                assert_eq!(String::from_utf8(body).expect("ASCII"), expected);
                for (id, number) in ids.iter().zip(numbers.clone()) {
                    let one = String::from_utf8(writer.one(*id)).expect("ASCII");
                    let text = form.write(number);
                    let expected = match format {
                        BodyFormat::Lines => format!("{text}\n"),
                        _ => format!(r#"{{"id":"{text}"}}"#),
                    };
                    assert_eq!(one, expected);
                    assert_eq!(one.capacity(), one.len());
                }
            }
        }
    }

    #[test]
    fn ids_of_a_past_time_are_taken_in_parts() {
        let ids: Vec<Id> = (0..10).map(|index| Id::new(70 + 4 * index).expect("small")).collect();
        let mut left = ids.clone().into_iter();
        let range = |first: u64, last, count| {
            let [first, last] = [first, last].map(|number| Id::new(number).expect("small"));
            Some(IdRange { first, last, step: 4, count })
        };
        assert_eq!(left.next_range(3), range(70, 78, 3));
        assert_eq!(left.next_range(1), range(82, 82, 1));
        assert_eq!(left.len(), 6);
        assert_eq!(left.next_range(u64::MAX), range(86, 106, 6));
        assert_eq!(left.next_range(1), None);
        assert_eq!(ids.into_iter().into_ranges().count(), 1);
    }
}
