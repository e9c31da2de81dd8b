//! Segment codes in Redis: a hash for each, and a sorted set of their names.
//!
//! A reservation is one script. Redis adds the numbers, because those of Lua are doubles; the
//! script itself undoes a sum beyond the end. Lists are read in pages, since a script keeps the
//! server from everything else while it runs. A code that is created or deleted between two pages
//! may be missing; only people read lists. Tests: tests/store/segments.rs and segment_epochs.rs.

use std::{collections::HashMap, ops::RangeInclusive};

use async_trait::async_trait;
use raindrop_core::lease::Token;

use super::{RedisStore, scripts};
use crate::{
    CodeState, ListedSegment, ManagedCode, NewSegment, Reservation, Reserved, Result, SegmentStore,
    Undo, UnusedNumbers,
    value::{Reader, Value, values},
};

/// The most codes that one script creates or lists: while it runs, the server does nothing else.
const CODES_AT_ONCE: u32 = 500;

#[async_trait]
impl SegmentStore for RedisStore {
    fn segment_table(&self) -> &str {
        &self.settings.segment_table
    }

    async fn prepare_segments(&self) -> Result<()> {
        // Fails if the key has another type, so that another application uses its name.
        self.command::<u64>("ZCARD", &self.codes_key()).await?;
        Ok(())
    }

    async fn create_segments(&self, namespace: &str, codes: &[NewSegment]) -> Result<()> {
        let (prefix, names) = (self.code_prefix(namespace), format!("{namespace} "));
        for codes in codes.chunks(CODES_AT_ONCE as usize) {
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

    async fn read_segments(
        &self,
        namespace: &str,
        codes: &[&str],
        epoch: Token,
    ) -> Result<Vec<Result<CodeState>>> {
        let mut keys = vec![self.layout_key(namespace)];
        keys.extend(codes.iter().map(|code| self.code_key(namespace, code)));
        let args = values![epoch, self.is_compared()];
        let answers: Vec<Vec<Value>> = self.run(&scripts::READ_SEGMENTS, &keys, &args).await?;
        let state = |(code, answer): (&&str, _)| {
            let row = format!("{namespace} {code}");
            let mut reader = Reader::new(&self.settings.segment_table, row, answer);
            code_state(&reader.get::<String>("outcome")?, reader)
        };
        Ok(codes.iter().zip(answers).map(state).collect())
    }

    async fn give_back(&self, namespace: &str, code: &str, unused: &UnusedNumbers) -> Result<bool> {
        let UnusedNumbers { from, reserved, epoch, token } = *unused;
        let keys = [self.code_key(namespace, code), self.layout_key(namespace)];
        let args = values![reserved, from, token, epoch, self.is_compared()];
        self.run(&scripts::GIVE_BACK, &keys, &args).await
    }

    async fn undo(&self, namespace: &str, code: &str, undo: &Undo) -> Result<bool> {
        let Undo { by, reserved, epoch, token } = *undo;
        let keys = [self.code_key(namespace, code), self.layout_key(namespace)];
        let args = values![reserved, by, token, epoch, self.is_compared()];
        self.run(&scripts::UNDO, &keys, &args).await
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
        let args = values![format!("[{namespace} "), format!("({namespace}!")];
        self.run(&scripts::COUNT_SEGMENTS, &keys, &args).await
    }

    async fn list_segments(&self) -> Result<Vec<ListedSegment>> {
        let (mut listed, mut least): (Vec<ListedSegment>, _) = (Vec::new(), "-".to_owned());
        loop {
            let page = self.segments(&least, "+", CODES_AT_ONCE).await?;
            let Some(last) = page.last() else { return Ok(listed) };
            least = format!("({} {}", last.namespace, last.code);
            listed.extend(page);
        }
    }

    async fn segments_in(
        &self,
        namespace: &str,
        codes: RangeInclusive<&str>,
        limit: u32,
    ) -> Result<Vec<ListedSegment>> {
        let bound = |code: &str| format!("[{namespace} {code}");
        self.segments(&bound(codes.start()), &bound(codes.end()), limit).await
    }
}

impl RedisStore {
    /// Returns the codes whose names are within these bounds of `ZRANGEBYLEX`.
    async fn segments(&self, least: &str, most: &str, limit: u32) -> Result<Vec<ListedSegment>> {
        let table = &self.settings.segment_table;
        let args = values![table, least, most, u64::from(limit)];
        let rows: Vec<Vec<Value>> =
            self.run(&scripts::SEGMENTS, &[self.codes_key()], &args).await?;
        rows.into_iter().map(|row| Reader::new(table, "", row).listed_segment("next")).collect()
    }
}

/// Reads the state of a code from a script's response, after the outcome.
fn code_state(outcome: &str, mut reader: Reader<'_>) -> Result<CodeState> {
    Ok(match outcome {
        "other epoch" => CodeState::OtherEpoch,
        "no such code" => CodeState::Missing,
        _ => CodeState::Row(reader.code_row("next")?),
    })
}
