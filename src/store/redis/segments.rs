//! Segment codes in Redis: a hash for each, and a set of their names.

use std::collections::HashMap;

use async_trait::async_trait;

use super::{RedisStore, integer, scripts, text};
use crate::{
    core::lease::Token,
    store::{
        ListedSegment, NewSegment, Reservation, Reserved, SegmentStore, StoreError,
        value::{Reader, Value},
    },
};

/// How many codes one script creates: it keeps others waiting.
const CODES_AT_ONCE: usize = 500;

#[async_trait]
impl SegmentStore for RedisStore {
    fn segment_table(&self) -> &str {
        &self.segment_table
    }

    async fn prepare_segments(&self) -> Result<(), StoreError> {
        // Fails when the name is somebody else's.
        self.server.command::<u64>("SCARD", &self.segments.names()).await?;
        Ok(())
    }

    async fn create_segments(
        &self,
        namespace: &str,
        codes: &[NewSegment],
    ) -> Result<(), StoreError> {
        let (prefix, names) = (self.segments.codes(namespace), format!("{namespace} "));
        let token = Token::UNUSED.to_string();
        for codes in codes.chunks(CODES_AT_ONCE) {
            let numbers: Vec<String> = codes.iter().map(|new| new.first.to_string()).collect();
            let mut args = vec![prefix.as_str(), &names, &token];
            for (new, first) in codes.iter().zip(&numbers) {
                args.extend([new.code.as_str(), first]);
            }
            let keys = [self.segments.names()];
            self.server.run::<()>(&scripts::CREATE_SEGMENTS, &keys, &args).await?;
        }
        Ok(())
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved, StoreError> {
        let Reservation { by, end, token, or_begin_at } = *reservation;
        let args = [
            by.to_string(),
            end.to_string(),
            token.to_string(),
            or_begin_at.map(|first| first.to_string()).unwrap_or_default(),
            format!("{namespace} {code}"),
        ];
        let args = args.each_ref().map(String::as_str);
        let keys = [self.segments.code(namespace, code), self.segments.names()];
        let answer: Vec<Option<Vec<u8>>> = self.server.run(&scripts::RESERVE, &keys, &args).await?;
        let mut answer = answer.into_iter().map(text);
        let Some(outcome) = answer.next() else { return Ok(Reserved::NoSuchCode) };
        let values = answer.map(integer).collect();
        let next = Reader::new(&self.segment_table, format!("{namespace} {code}"), values)
            .count("next")?;
        Ok(match outcome {
            Value::Text(raised) if raised == "1" => Reserved::From(next),
            _ => Reserved::Refused { next },
        })
    }

    async fn give_back(
        &self,
        namespace: &str,
        code: &str,
        reserved: Token,
        from: u64,
        token: Token,
    ) -> Result<bool, StoreError> {
        let args = [reserved.to_string(), from.to_string(), token.to_string()];
        let args = args.each_ref().map(String::as_str);
        let keys = [self.segments.code(namespace, code)];
        self.server.run(&scripts::GIVE_BACK, &keys, &args).await
    }

    async fn segments(&self) -> Result<Vec<ListedSegment>, StoreError> {
        let mut names: Vec<String> =
            self.server.command("SMEMBERS", &self.segments.names()).await?;
        names.sort_unstable();
        let mut listed = Vec::new();
        for (namespace, code) in names.iter().filter_map(|name| name.split_once(' ')) {
            let key = self.segments.code(namespace, code);
            let fields: HashMap<String, Vec<u8>> = self.server.command("HGETALL", &key).await?;
            // Somebody deleted it.
            if fields.is_empty() {
                continue;
            }
            let field = |name: &str| integer(text(fields.get(name).cloned()));
            let values = ["next", "step", "updated_at"].map(field).to_vec();
            let row = format!("{namespace} {code}");
            let mut reader = Reader::new(&self.segment_table, row, values);
            listed.push(ListedSegment {
                namespace: namespace.to_owned(),
                code: code.to_owned(),
                next: reader.count("next")?,
                step: reader.count("step")?,
                updated_ms: reader.integer("updated_at")?,
            });
        }
        Ok(listed)
    }
}
