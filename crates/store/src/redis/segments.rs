//! Segment codes in Redis: a hash for each, and a set of their names.

use std::collections::HashMap;

use async_trait::async_trait;
use raindrop_core::lease::Token;

use super::{RedisStore, scripts};
use crate::{
    CodeState, ListedSegment, ManagedCode, NewSegment, Reservation, Reserved, Result, SegmentStore,
    UnusedNumbers,
    value::{Reader, Value, values},
};

/// How many codes one script creates: it keeps others waiting.
const CODES_AT_ONCE: usize = 500;

#[async_trait]
impl SegmentStore for RedisStore {
    fn segment_table(&self) -> &str {
        &self.settings.segment_table
    }

    async fn prepare_segments(&self) -> Result<()> {
        // Fails when the name is somebody else's.
        self.command::<u64>("SCARD", &self.codes_key()).await?;
        Ok(())
    }

    async fn create_segments(&self, namespace: &str, codes: &[NewSegment]) -> Result<()> {
        let (prefix, names) = (self.code_prefix(namespace), format!("{namespace} "));
        for codes in codes.chunks(CODES_AT_ONCE) {
            let mut args = values![&prefix, &names, Token::UNUSED].to_vec();
            args.extend(codes.iter().flat_map(|new| values![&new.code, new.first]));
            let keys = [self.codes_key()];
            self.run::<()>(&scripts::CREATE_SEGMENTS, &keys, &args).await?;
        }
        Ok(())
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let Reservation { by, step, end, token, or_begin_at, epoch, row_epoch } = *reservation;
        let row = format!("{namespace} {code}");
        let is_compared = self.is_compared();
        let args = values![by, end, token, or_begin_at, &row, step, epoch, row_epoch, is_compared];
        let keys = [self.code_key(namespace, code), self.codes_key(), self.layout_key(namespace)];
        let answer = self.run(&scripts::RESERVE, &keys, &args).await?;
        let mut reader = Reader::new(&self.settings.segment_table, row, answer);
        Ok(match &*reader.get::<String>("outcome")? {
            "raised" => Reserved::From(reader.get("next")?),
            other => reservation.refusal(code_state(other, reader)?),
        })
    }

    async fn read_segment(&self, namespace: &str, code: &str, epoch: Token) -> Result<CodeState> {
        let keys = [self.code_key(namespace, code), self.layout_key(namespace)];
        let args = values![epoch, self.is_compared()];
        let answer = self.run(&scripts::READ_SEGMENT, &keys, &args).await?;
        let row = format!("{namespace} {code}");
        let mut reader = Reader::new(&self.settings.segment_table, row, answer);
        code_state(&reader.get::<String>("outcome")?, reader)
    }

    async fn give_back(&self, namespace: &str, code: &str, unused: &UnusedNumbers) -> Result<bool> {
        let UnusedNumbers { from, reserved, epoch, token } = *unused;
        let keys = [self.code_key(namespace, code), self.layout_key(namespace)];
        let args = values![reserved, from, token, epoch, self.is_compared()];
        self.run(&scripts::GIVE_BACK, &keys, &args).await
    }

    async fn list_managed_codes(&self, namespace: &str) -> Result<Vec<ManagedCode>> {
        let key = self.settings_key(namespace);
        let fields: HashMap<String, String> = self.command("HGETALL", &key).await?;
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_unstable();
        let managed = |(code, value): (String, String)| {
            let (token, settings) = value.split_once(' ').unwrap_or(("", &value));
            let row = values![&code, settings, token].to_vec();
            Reader::new(&key.name, namespace, row).managed_code()
        };
        fields.into_iter().map(managed).collect()
    }

    async fn write_managed_code(
        &self,
        namespace: &str,
        expected: Option<Token>,
        code: &ManagedCode,
    ) -> Result<bool> {
        let args = values![&code.code, expected, code.token, &code.settings];
        self.run(&scripts::WRITE_MANAGED_CODE, &[self.settings_key(namespace)], &args).await
    }

    async fn count_segments(&self, namespace: &str) -> Result<u64> {
        let keys = [self.codes_key()];
        self.run(&scripts::COUNT_SEGMENTS, &keys, &values![format!("{namespace} ")]).await
    }

    async fn list_segments(&self) -> Result<Vec<ListedSegment>> {
        let mut names: Vec<String> = self.command("SMEMBERS", &self.codes_key()).await?;
        names.sort_unstable();
        let mut listed = Vec::new();
        for (namespace, code) in names.iter().filter_map(|name| name.split_once(' ')) {
            let key = self.code_key(namespace, code);
            let fields: HashMap<String, Value> = self.command("HGETALL", &key).await?;
            // Somebody deleted it.
            if fields.is_empty() {
                continue;
            }
            let field = |name: &str| Value::from(fields.get(name).cloned());
            let numbers = ["next", "step", "updated_at", "created_at", "epoch"].map(field);
            let row = [&values![namespace, code][..], &numbers].concat();
            let mut reader = Reader::new(&self.settings.segment_table, "", row);
            listed.push(reader.listed_segment("next")?);
        }
        Ok(listed)
    }
}

/// Reads what a script knows of a code, after the outcome.
fn code_state(outcome: &str, mut reader: Reader<'_>) -> Result<CodeState> {
    Ok(match outcome {
        "other epoch" => CodeState::OtherEpoch,
        "no such code" => CodeState::Missing,
        _ => CodeState::Row(reader.code_row("next")?),
    })
}
