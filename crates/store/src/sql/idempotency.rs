//! Idempotency keys in a SQL database.
//!
//! Claiming is one statement, and so is writing texts: each key that is not as expected is left as
//! it is. What a key holds is read afterwards. A text that was read is returned only after a further
//! write, because a store may show a write before it is durable.

use std::{sync::atomic::Ordering, time::Duration};

use async_trait::async_trait;
use raindrop_core::{instant::millis, lease::Token};

use super::{
    SqlStore,
    engine::Engine,
    session::{Server, incomplete_rows},
};
use crate::{
    IdempotencyStore, KeyState, KeyText, Result, StoreError,
    value::{Reader, Value, values},
};

#[async_trait]
impl<E: Engine> IdempotencyStore for SqlStore<E> {
    fn keeps_keys(&self) -> bool {
        !self.lacks_keys.load(Ordering::Relaxed)
    }

    async fn claim_keys(
        &self,
        namespace: &str,
        code: &str,
        keys: &[&str],
        owner: Token,
        patience: Duration,
    ) -> Result<Vec<KeyState>> {
        let names = json(keys)?;
        let args = |Server { session, .. }: &Server| {
            values![namespace, code, owner, millis(patience), &names, session].to_vec()
        };
        self.write(&self.sql["claim_keys"], args).await?;
        let states = self.key_states(namespace, code, keys, owner).await?;
        if states.iter().any(|state| matches!(state, KeyState::Finished(_))) {
            self.write(&self.sql["claim_keys"], args).await?;
        }
        Ok(states)
    }

    async fn finish_keys(
        &self,
        namespace: &str,
        code: &str,
        owner: Token,
        texts: &[KeyText],
    ) -> Result<Vec<KeyState>> {
        let pairs: Vec<_> = texts.iter().map(|KeyText { key, text }| (key, text)).collect();
        let pairs = json(&pairs)?;
        let args = |Server { session, .. }: &Server| {
            values![pairs, namespace, code, owner, session].to_vec()
        };
        let written = self.write(&self.sql["finish_keys"], args).await?.matched;
        if written == texts.len() as u64 {
            return Ok(texts.iter().map(|it| KeyState::Finished(it.text.clone())).collect());
        }
        let keys: Vec<_> = texts.iter().map(|it| &*it.key).collect();
        self.key_states(namespace, code, &keys, owner).await
    }

    async fn delete_old_keys(&self, age: Duration) -> Result<u64> {
        if !self.keeps_keys() {
            return Ok(0);
        }
        let args = |Server { session, .. }: &Server| values![millis(age), session].to_vec();
        Ok(self.write(&self.sql["delete_old_keys"], args).await?.matched)
    }
}

impl<E: Engine> SqlStore<E> {
    /// Reads the state of each key. A key without a row is another's: its owner may have lost it.
    async fn key_states(
        &self,
        namespace: &str,
        code: &str,
        keys: &[&str],
        owner: Token,
    ) -> Result<Vec<KeyState>> {
        let table = format!("{}_keys", self.settings.segment_table);
        let args = values![json(keys)?, namespace, code];
        let rows = self.read(&self.sql["read_keys"], &args).await?;
        if rows.len() != keys.len() {
            return Err(incomplete_rows(keys.len(), rows.len(), &table));
        }
        let state = |(key, row): (&&str, Vec<Value>)| {
            let mut reader = Reader::new(&table, format!("{namespace} {code} {key}"), row);
            let (present, text): (Option<Token>, Option<String>) =
                (reader.get("owner")?, reader.get("number_text")?);
            Ok(match text {
                Some(text) if !text.is_empty() => KeyState::Finished(text),
                _ if present == Some(owner) => KeyState::Owned,
                _ => KeyState::Busy,
            })
        };
        keys.iter().zip(rows).map(state).collect()
    }
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Refused(error.into()))
}
