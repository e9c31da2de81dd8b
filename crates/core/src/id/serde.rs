//! IDs in the formats of serde.
//!
//! JavaScript and other readers of JSON round numbers above 2^53 − 1, and most IDs are above that.
//! So an ID is text unless its field asks for a number, as in the responses of the service.

use std::fmt;

use serde_core::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Unexpected, Visitor},
};

use super::Id;

/// Writes decimal text in formats for people, such as JSON, and a number in binary formats.
///
/// # Examples
///
/// ```
/// use raindrop_core::id::Id;
///
/// let id = Id::new(249_679_838_552_547_328).expect("63 bits");
/// let json = serde_json::to_string(&id)?;
/// assert_eq!(json, r#""249679838552547328""#);
/// assert_eq!(serde_json::from_str::<Id>(&json)?, id);
/// # Ok::<(), serde_json::Error>(())
/// ```
impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

/// Reads decimal text or a number from formats for people, and a number from binary formats.
impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(IdVisitor)
        } else {
            deserializer.deserialize_u64(IdVisitor)
        }
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an ID, which is 0 to {} as a number or as decimal text", Id::MAX)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
        Id::new(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Makes an [`Id`] a number in every format, for `#[serde(with = "…")]`.
///
/// Formats for people refuse to write an ID above 2^53 − 1, which many of their readers would
/// round. The layout `js-safe` has none until 2059.
///
/// # Examples
///
/// ```
/// use raindrop_core::id::{Id, as_number};
///
/// let mut json = serde_json::Serializer::new(Vec::new());
/// as_number::serialize(&Id::MAX_JS_SAFE, &mut json)?;
/// assert_eq!(json.into_inner(), b"9007199254740991");
/// assert!(as_number::serialize(&Id::MAX, serde_json::value::Serializer).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub mod as_number {
    use serde_core::{Deserialize, Deserializer, Serializer, ser::Error};

    use crate::id::Id;

    /// Writes a number.
    ///
    /// # Errors
    ///
    /// When the ID is above 2^53 − 1 and the format is for people.
    pub fn serialize<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() && !id.is_js_safe() {
            return Err(S::Error::custom(format_args!(
                "the ID {id} is above {}, 2^53 - 1, so readers may round it as a number: write it \
                 as text, or issue IDs of the layout js-safe",
                Id::MAX_JS_SAFE
            )));
        }
        serializer.serialize_u64(id.get())
    }

    /// Reads a number, or decimal text from formats for people.
    ///
    /// # Errors
    ///
    /// When the value is not an ID.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        Id::deserialize(deserializer)
    }
}
