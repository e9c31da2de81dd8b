use serde_test::{Configure, Token, assert_de_tokens, assert_tokens};

use super::{Id, as_number};

const ID: Id = Id::from_composed(249_679_838_552_547_328);

#[test]
fn formats_for_people_have_text_and_binary_ones_a_number() {
    assert_tokens(&ID.readable(), &[Token::Str("249679838552547328")]);
    assert_tokens(&ID.compact(), &[Token::U64(249_679_838_552_547_328)]);
    for id in [Id::from_composed(0), Id::MAX] {
        assert_tokens(&id.readable(), &[Token::String(id.to_string().leak())]);
        assert_tokens(&id.compact(), &[Token::U64(id.get())]);
    }
}

#[test]
fn numbers_are_read_from_formats_for_people_too() {
    assert_de_tokens(&ID.readable(), &[Token::U64(ID.get())]);
    assert_de_tokens(&ID.readable(), &[Token::I64(249_679_838_552_547_328)]);
    assert_de_tokens(&Id::from_composed(7).readable(), &[Token::U8(7)]);
    // Formats such as CBOR say the type of a number themselves.
    assert_de_tokens(&ID.compact(), &[Token::I64(249_679_838_552_547_328)]);
}

#[test]
fn errors_name_the_value_and_what_is_allowed() {
    let allowed =
        "expected an ID, which is 0 to 9223372036854775807 as a number or as decimal text";
    for (json, wrong) in [
        ("-1", "invalid value: integer `-1`"),
        ("9223372036854775808", "invalid value: integer `9223372036854775808`"),
        ("18446744073709551616", "invalid type: floating point `1.8446744073709552e+19`"),
        ("1.0", "invalid type: floating point `1.0`"),
        ("null", "invalid type: null"),
        (r#""ord_1""#, r#"invalid value: string "ord_1""#),
        (r#""""#, r#"invalid value: string """#),
        (r#""-1""#, r#"invalid value: string "-1""#),
        (r#""9223372036854775808""#, r#"invalid value: string "9223372036854775808""#),
    ] {
        let error = serde_json::from_str::<Id>(json).expect_err(json).to_string();
        assert!(error.starts_with(&format!("{wrong}, {allowed} at line 1")), "{json}: {error}");
    }
}

/// A field with `#[serde(with = "as_number")]`, written by hand.
#[derive(Debug, PartialEq)]
struct Number(Id);

impl serde_core::Serialize for Number {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_number::serialize(&self.0, serializer)
    }
}

impl<'de> serde_core::Deserialize<'de> for Number {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        as_number::deserialize(deserializer).map(Self)
    }
}

#[test]
fn a_number_is_refused_where_readers_would_round_it() {
    assert_tokens(&Number(Id::MAX_JS_SAFE).readable(), &[Token::U64((1 << 53) - 1)]);
    assert_tokens(&Number(Id::MAX).compact(), &[Token::U64((1 << 63) - 1)]);
    let above = Id::from_composed(1 << 53);
    let error = as_number::serialize(&above, serde_json::value::Serializer).expect_err("2^53");
    assert_eq!(
        error.to_string(),
        "the ID 9007199254740992 is above 9007199254740991, 2^53 - 1, so readers may round it as a \
         number: write it as text, or issue IDs of the layout js-safe"
    );
    assert_de_tokens(&Number(above).readable(), &[Token::Str("9007199254740992")]);
}
