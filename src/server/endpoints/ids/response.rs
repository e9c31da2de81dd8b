//! Writes IDs. This is the hot path of the service, so the JSON is written by hand, into one buffer.

use std::{io::Write, vec};

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, Response, header},
};
use serde_json::{Map, Value, json};

use super::request::{BodyFormat, IdRequest, refuse_unsafe};
use crate::{
    core::{
        encoding::{write_decimal, write_decimal_range},
        id::Id,
        issue::{IdRange, Run},
        segment::Numbers,
    },
    server::{body::ResponseBody, problem::Problem},
};

/// The successful response to a request for IDs.
#[derive(Debug)]
pub(in crate::server) struct IdResponse {
    format: BodyFormat,
    body: ResponseBody,
}

impl IdResponse {
    /// The response; `headers` may be used ones, whose memory is used again.
    pub(in crate::server) fn into_response(self, mut headers: HeaderMap) -> Response<ResponseBody> {
        let content_type = match self.format {
            BodyFormat::Lines => "text/plain; charset=utf-8",
            BodyFormat::Strings | BodyFormat::Numbers | BodyFormat::Ranges => "application/json",
        };
        headers.clear();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let mut response = Response::new(self.body);
        *response.headers_mut() = headers;
        response
    }
}

/// The IDs of one claim.
pub(super) trait Batch: ExactSizeIterator<Item = Id> {
    fn into_ranges(self) -> impl Iterator<Item = IdRange>;
}

impl Batch for Run {
    fn into_ranges(self) -> impl Iterator<Item = IdRange> {
        self.ranges()
    }
}

impl Batch for Numbers {
    fn into_ranges(self) -> impl Iterator<Item = IdRange> {
        self.ranges()
    }
}

/// IDs for a past time: neighbours of one tick.
impl Batch for vec::IntoIter<Id> {
    fn into_ranges(self) -> impl Iterator<Item = IdRange> {
        let ids = self.as_slice();
        let step = ids.first().zip(ids.get(1)).map_or(1, |(one, next)| next.get() - one.get());
        debug_assert!(ids.windows(2).all(|pair| pair[1].get() - pair[0].get() == step));
        let range = ids.first().zip(ids.last()).map(|(first, last)| IdRange {
            first: *first,
            last: *last,
            step,
            count: ids.len() as u64,
        });
        range.into_iter()
    }
}

impl IdRequest<'_> {
    /// The response to HEAD: nothing was claimed, so no length is known.
    pub(super) fn without_ids(&self) -> IdResponse {
        IdResponse { format: self.format, body: ResponseBody::UnknownLength }
    }

    /// Writes the IDs of a claim.
    pub(super) fn write(&self, mut ids: impl Batch) -> Result<IdResponse, Problem> {
        let body = if self.is_batch {
            self.write_batch(ids)?
        } else {
            self.write_one(ids.next().expect("a claim of one has one ID"))?
        };
        Ok(IdResponse { format: self.format, body: Bytes::from(body).into() })
    }

    fn write_one(&self, id: Id) -> Result<Vec<u8>, Problem> {
        let [before, after] = match self.format {
            BodyFormat::Lines => ["", "\n"],
            BodyFormat::Numbers => [r#"{"id":"#, "}"],
            BodyFormat::Strings | BodyFormat::Ranges => [r#"{"id":""#, r#""}"#],
        };
        if self.format == BodyFormat::Numbers {
            refuse_unsafe(id)?;
        }
        // The exact length of the usual text: `Bytes` tracks spare capacity until it is sent.
        let digits = 1 + id.get().checked_ilog10().unwrap_or(0) as usize;
        let length = before.len() + self.prefix.len() + digits + after.len();
        let mut body = Vec::with_capacity(length);
        body.extend_from_slice(before.as_bytes());
        self.write_text(&mut body, id);
        body.extend_from_slice(after.as_bytes());
        Ok(body)
    }

    fn write_batch(&self, ids: impl Batch) -> Result<Vec<u8>, Problem> {
        // 19 digits, two quotes and a comma.
        let mut body = Vec::with_capacity(ids.len() * (22 + self.prefix.len()) + 16);
        match self.format {
            BodyFormat::Lines => {
                self.write_texts(&mut body, ids, "", "\n");
                return Ok(body);
            }
            BodyFormat::Ranges => {
                body.extend_from_slice(br#"{"ranges":["#);
                for IdRange { first, last, step, count } in ids.into_ranges() {
                    let json = format_args!(
                        r#"{{"first":"{first}","last":"{last}","step":"{step}","count":{count}}},"#
                    );
                    body.write_fmt(json).expect("a vector takes any bytes");
                }
            }
            BodyFormat::Strings => {
                body.extend_from_slice(br#"{"ids":["#);
                self.write_texts(&mut body, ids, "\"", "\",");
            }
            BodyFormat::Numbers => {
                body.extend_from_slice(br#"{"ids":["#);
                for range in ids.into_ranges() {
                    refuse_unsafe(range.last)?;
                    write_decimal_range(&mut body, &range, "", ",");
                }
            }
        }
        // A claim has at least one ID, so the last byte is a comma.
        body.pop();
        body.extend_from_slice(b"]}");
        Ok(body)
    }

    /// Writes the text of each ID between `before` and `after`.
    fn write_texts(&self, body: &mut Vec<u8>, ids: impl Batch, before: &str, after: &str) {
        if self.encoder.is_some() {
            for id in ids {
                body.extend_from_slice(before.as_bytes());
                self.write_text(body, id);
                body.extend_from_slice(after.as_bytes());
            }
        } else {
            let before = [before, self.prefix].concat();
            for range in ids.into_ranges() {
                write_decimal_range(body, &range, &before, after);
            }
        }
    }

    fn write_text(&self, body: &mut Vec<u8>, id: Id) {
        body.extend_from_slice(self.prefix.as_bytes());
        match self.encoder {
            None => write_decimal(body, id),
            Some(encoder) => {
                write!(body, "{}", encoder.text(id)).expect("a vector takes any bytes");
            }
        }
    }
}

/// The schemas of both responses, by name.
pub(super) fn schemas() -> Map<String, Value> {
    let digits =
        |example: &str| json!({ "type": "string", "pattern": "^[0-9]{1,19}$", "example": example });
    let mut step = digits("1");
    step["description"] = "From each ID to the next.".into();
    let schemas = json!({
        "OneId": {
            "type": "object",
            "description": "One ID.",
            "required": ["id"],
            "properties": { "id": { "$ref": "#/components/schemas/Id" } },
        },
        "Id": {
            "oneOf": [
                { "$ref": "#/components/schemas/IdText" },
                { "$ref": "#/components/schemas/IdNumber" },
            ],
            "description": "A text, or with `format=number` a number.",
        },
        "IdText": {
            "type": "string",
            "description": "In the requested encoding, after the prefix of its code if that has one.",
            "example": "249679838552547328",
            "minLength": 1,
        },
        "IdNumber": {
            "type": "integer",
            "format": "int64",
            "description": "Exact in JavaScript.",
            "maximum": Id::MAX_JS_SAFE.get(),
            "minimum": 0,
        },
        "Ids": {
            "oneOf": [
                {
                    "type": "object",
                    "description": "In ascending order.",
                    "required": ["ids"],
                    "properties": {
                        "ids": { "type": "array", "items": { "$ref": "#/components/schemas/Id" } },
                    },
                },
                {
                    "type": "object",
                    "description": "With `format=range`.",
                    "required": ["ranges"],
                    "properties": {
                        "ranges": {
                            "type": "array",
                            "items": { "$ref": "#/components/schemas/Range" },
                        },
                    },
                },
            ],
            "description": "IDs, or ranges of them.",
        },
        "Range": {
            "type": "object",
            "description": "IDs at equal distances.",
            "required": ["first", "last", "step", "count"],
            "properties": {
                "first": digits("249679838552547328"),
                "last": digits("249679838552551423"),
                "step": step,
                "count": {
                    "type": "integer",
                    "format": "int64",
                    "description": "How many there are.",
                    "minimum": 1,
                },
            },
        },
    });
    serde_json::from_value(schemas).expect("an object")
}
