//! Writes IDs. This is the hot path of the service, so the JSON is written by hand.

use std::{
    io::{self, Write},
    vec,
};

use crate::core::{
    encoding::{Encoder, Encoding, write_decimal_range},
    id::Id,
    issue::{IdRange, RepeatedRange, Run},
    layout::Layout,
    segment::Numbers,
};

/// The bytes that the head of ranges takes at most: a canonical text of a layout, a prefix, and
/// numbers.
const LARGEST_HEAD: usize = 1024;

/// IDs that are written between two looks at the length of a piece.
const AT_A_TIME: u64 = 64;

/// The IDs of one claim.
pub(super) trait Batch:
    ExactSizeIterator<Item = Id> + Clone + Send + Unpin + 'static
{
    /// Takes the next IDs that are evenly spaced, up to this many.
    fn next_range(&mut self, at_most: u64) -> Option<IdRange>;

    /// Takes the next IDs that one object of `format=range` has.
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

/// IDs for a past time: neighbours of one tick.
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

/// What the body of a response looks like.
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

/// How each ID is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts {
    pub(super) format: BodyFormat,
    pub(super) encoding: Encoding,
    pub(super) is_padded: bool,
}

impl Texts {
    /// Whether IDs are plain decimal numbers, which are written fastest.
    pub(super) fn are_plain(self) -> bool {
        self.encoding == Encoding::Decimal && !self.is_padded
    }

    /// The largest number of bytes that so many IDs take, or so many ranges.
    pub(super) fn largest_length(self, prefix: &str, count: u32) -> usize {
        let longest = match self.encoding {
            // The widest fields: a time with a year of six digits, and every other bit a digit.
            Encoding::Friendly => 64,
            _ => 19,
        };
        let each = match self.format {
            // Texts of quotes, digits and names.
            BodyFormat::Ranges => 192,
            // Two quotes and a comma, or a line feed.
            _ => longest + prefix.len() + 3,
        };
        let around = if self.format == BodyFormat::Ranges { LARGEST_HEAD } else { 16 };
        each * count as usize + around
    }

    pub(super) fn writer<'a>(self, prefix: &'a str, layout: Option<&'a Layout>) -> Writer<'a> {
        let encoder = || Encoder::new(self.encoding, self.is_padded, layout);
        let encoder = (!self.are_plain()).then(|| encoder().expect("checked with the request"));
        Writer { format: self.format, prefix, encoder }
    }
}

/// Writes the texts of IDs, and what stands around them.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    format: BodyFormat,
    prefix: &'a str,
    /// Writes each ID; none writes plain decimal.
    encoder: Option<Encoder<'a>>,
}

impl Writer<'_> {
    /// The whole body of one ID.
    pub(super) fn one(&self, id: Id) -> Vec<u8> {
        let [before, after] = match self.format {
            BodyFormat::Lines => ["", "\n"],
            BodyFormat::Numbers => [r#"{"id":"#, "}"],
            BodyFormat::Strings | BodyFormat::Ranges => [r#"{"id":""#, r#""}"#],
        };
        // The exact length of the usual text: `Bytes` tracks spare capacity until it is sent.
        let length = before.len() + self.prefix.len() + digits(id) + after.len();
        let mut body = Vec::with_capacity(length);
        let range = IdRange { first: id, last: id, step: 1, count: 1 };
        self.texts(&mut body, &range, before, after);
        body
    }

    /// Writes what stands before a batch; of ranges, that is `head`.
    pub(super) fn open(&self, head: &str, body: &mut Vec<u8>) {
        match self.format {
            BodyFormat::Lines => {}
            BodyFormat::Ranges => body.extend_from_slice(head.as_bytes()),
            BodyFormat::Strings | BodyFormat::Numbers => body.extend_from_slice(br#"{"ids":["#),
        }
    }

    /// Writes what stands after a batch.
    pub(super) fn close(&self, body: &mut Vec<u8>) {
        if self.format != BodyFormat::Lines {
            // A claim has at least one ID, so the last byte is a comma.
            body.pop();
            body.extend_from_slice(b"]}");
        }
    }

    /// The length in bytes of a whole batch; `None` where each text would have to be written first.
    pub(super) fn exact_length(&self, ids: &impl Batch) -> Option<u64> {
        // What stands around all texts, without the last comma, and around each.
        let [around_all, around_each] = match self.format {
            BodyFormat::Lines => [0, 1],
            BodyFormat::Numbers => [r#"{"ids":[]}"#.len() as u64 - 1, 1],
            BodyFormat::Strings => [r#"{"ids":[]}"#.len() as u64 - 1, 3],
            BodyFormat::Ranges => return None,
        };
        if self.encoder.is_some() {
            return None;
        }
        let around_each = around_each + self.prefix.len() as u64;
        let mut length = around_all;
        for range in ids.clone().into_ranges() {
            let each = digits(range.first);
            // The number of digits changes once in many years.
            if each != digits(range.last) {
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

    /// Writes IDs until the body has about this many bytes. Returns whether these were the last.
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

    /// Writes up to this many IDs, or one range. Returns whether there was one.
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
        let with_prefix;
        let before = if self.prefix.is_empty() {
            before
        } else {
            with_prefix = [before, self.prefix].concat();
            &with_prefix
        };
        match self.encoder {
            None => write_decimal_range(body, range, before, after),
            Some(encoder) => encoder.write_range(body, range, before, after),
        }
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

    /// Ten IDs in each of many ticks, as a run has them.
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
                    let texts = Texts { format, encoding, is_padded: false };
                    let writer = texts.writer(prefix, Some(&layout));
                    let mut whole = Vec::new();
                    writer.open(r#"{"ranges":["#, &mut whole);
                    writer.all(&mut run(count), &mut whole);
                    writer.close(&mut whole);
                    let mut ids = run(count);
                    let (mut pieces, mut is_last) = (Vec::new(), false);
                    writer.open(r#"{"ranges":["#, &mut pieces);
                    while !is_last {
                        let mut piece = Vec::new();
                        is_last = writer.until(&mut ids, &mut piece, 5_000);
                        assert!(!piece.is_empty() && piece.len() <= 5_000 + 150, "{format:?}");
                        pieces.extend_from_slice(&piece);
                    }
                    writer.close(&mut pieces);
                    let [whole, pieces] =
                        [whole, pieces].map(|it| String::from_utf8(it).expect("ASCII"));
                    assert_eq!(whole, pieces, "{format:?} {encoding} {count}");
                    let plain = encoding == Encoding::Decimal && format != BodyFormat::Ranges;
                    let length = plain.then_some(whole.len() as u64);
                    assert_eq!(writer.exact_length(&run(count)), length, "{format:?} {encoding}");
                    if format == BodyFormat::Lines {
                        let encoder = Encoder::new(encoding, false, &layout).expect("usable");
                        let one_by_one: String = run(count)
                            .map(|id| format!("{prefix}{}\n", encoder.text(id)))
                            .collect();
                        assert_eq!(whole, one_by_one, "{encoding} {count}");
                    }
                    let largest = texts.largest_length(prefix, count.try_into().expect("small"));
                    assert!(whole.len() <= largest, "{format:?} {encoding}: {}", whole.len());
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
