//! Requests with an `Idempotency-Key`, whose repetitions get the same number.
//!
//! The header is that of the IETF draft `idempotency-key-header`: a string in quotes (RFC 8941). A
//! value without quotes is read as well, because many clients send one.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue},
    response::Response,
};

use super::{
    request::IdRequest,
    response::Sending,
    segment_problem,
    strict_claim::{Repeatable, StrictClaim, text},
};
use crate::{
    core::id::Id,
    keeper::{IdempotencyKey, SegmentIssuer},
    server::{extract::invalid, response::Problem},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Reads the key of a request.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let said = |problem: &str| invalid(format!("Idempotency-Key: {problem}"));
    if values.next().is_some() {
        return Err(said("given more than once"));
    }
    let value = String::from_utf8_lossy(value.as_bytes());
    let text = unquoted(&value).ok_or_else(|| {
        let end = value.char_indices().nth(64).map_or(value.len(), |(end, _)| end);
        said(&format!("{:?} must end with a quotation mark, as it begins with one", &value[..end]))
    })?;
    IdempotencyKey::new(text).map(Some).map_err(|error| said(&error.to_string()))
}

/// Returns the content of a string of a structured field, or a text without quotes as it is. `None`
/// for a string that does not end, or ends before the value does.
fn unquoted(value: &str) -> Option<String> {
    let Some(quoted) = value.strip_prefix('"') else { return Some(value.to_owned()) };
    let (mut text, mut characters) = (String::new(), quoted.chars());
    loop {
        match characters.next()? {
            '"' => return characters.next().is_none().then_some(text),
            '\\' => text.push(characters.next().filter(|next| matches!(next, '"' | '\\'))?),
            other => text.push(other),
        }
    }
}

/// Refuses a key where it would be ignored.
pub(super) fn check(request: &IdRequest<'_>) -> Result<(), Problem> {
    let because = if !request.is_strict {
        format!("code {:?} is not strict, so its numbers are not repeated", request.code)
    } else if request.is_batch {
        "not possible with /ids: ask /id for each number, with a key of its own".to_owned()
    } else {
        return Ok(());
    };
    Err(invalid(format!("Idempotency-Key: {because}")))
}

/// Claims the number of a key, and writes the response.
pub(super) async fn claim(
    request: &IdRequest<'_>,
    issuer: &SegmentIssuer,
    client: Option<&(dyn Fn() -> u64 + Sync)>,
    key: IdempotencyKey,
    request_id: Option<&HeaderValue>,
    sending: Sending,
) -> Result<Response, Problem> {
    let number = issuer.number_of_key(client, request.code, &key).await;
    let number =
        number.map_err(|error| segment_problem(error, issuer.namespace(), request.code))?;
    // Digits, which the request may want in another encoding.
    let id = number.text.parse().ok().and_then(Id::new).filter(|_| request.texts.form.is_none());
    let (text, response) = match id {
        Some(id) => (text(request, id), request.write(vec![id].into_iter(), None, sending, None)?),
        None => (number.text.clone(), request.write_text(&number.text)),
    };
    let repeatable = Repeatable { key, is_repeated: number.is_repeated };
    Ok(StrictClaim::of_key(request, text, repeatable, request_id).follow(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Result<Option<String>, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, value.parse().expect("a value"));
        }
        Ok(key_of(&headers)?.map(|key| key.to_string()))
    }

    #[test]
    fn key_is_a_string_in_quotes_or_a_text_without_them() {
        assert!(matches!(read(&[]), Ok(None)));
        let longest = "k".repeat(255);
        for (value, expected) in [
            (r#""8e03978e-40d5""#, "8e03978e-40d5"),
            ("8e03978e-40d5", "8e03978e-40d5"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (r#"{"order":17}"#, r#"{"order":17}"#),
            ("a,b;c", "a,b;c"),
            (&longest, &longest),
        ] {
            assert_eq!(read(&[value]).expect(value).as_deref(), Some(expected));
        }
    }

    #[test]
    fn other_keys_are_refused() {
        let long = "k".repeat(256);
        for values in [
            &[""][..],
            &[r#""""#],
            &["a b"],
            &[r#""a b""#],
            &[r#""a"#],
            &[r#""a";p=1"#],
            &[r#""a\n""#],
            &["a", "a"],
            &[&long],
        ] {
            assert!(read(values).is_err(), "{values:?}");
        }
    }
}
