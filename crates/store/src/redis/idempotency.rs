//! Idempotency keys in Redis: a hash for each, which the server deletes after its time.
//!
//! Redis answers after its log is on the disk, so a text that a script reads is durable.

use std::time::Duration;

use async_trait::async_trait;
use raindrop_core::{instant::millis, lease::Token};

use super::{RedisStore, keys::Key, scripts};
use crate::{
    IdempotencyStore, KEYS_KEPT, KeyState, KeyText, Result,
    value::{Reader, Value, values},
};

#[async_trait]
impl IdempotencyStore for RedisStore {
    async fn claim_keys(
        &self,
        namespace: &str,
        code: &str,
        keys: &[&str],
        owner: Token,
        patience: Duration,
    ) -> Result<Vec<KeyState>> {
        let names = self.names(namespace, code, keys.iter().copied());
        let args = values![owner, millis(patience), millis(KEYS_KEPT)];
        let answers = self.run(&scripts::CLAIM_KEYS, &names, &args).await?;
        key_states(&names, answers)
    }

    async fn finish_keys(
        &self,
        namespace: &str,
        code: &str,
        owner: Token,
        texts: &[KeyText],
    ) -> Result<Vec<KeyState>> {
        let names = self.names(namespace, code, texts.iter().map(|text| &*text.key));
        let mut args = values![owner].to_vec();
        args.extend(texts.iter().map(|text| Value::from(&text.text)));
        let answers = self.run(&scripts::FINISH_KEYS, &names, &args).await?;
        key_states(&names, answers)
    }

    /// Does nothing: the server deletes them.
    async fn delete_old_keys(&self, _: Duration) -> Result<u64> {
        Ok(0)
    }
}

impl RedisStore {
    fn names<'a>(
        &self,
        namespace: &str,
        code: &str,
        keys: impl Iterator<Item = &'a str>,
    ) -> Vec<Key> {
        keys.map(|key| self.idempotency_key(namespace, code, key)).collect()
    }
}

/// Reads the state of each key from a script's answer: whose it is, and its text.
fn key_states(names: &[Key], answers: Vec<Vec<Value>>) -> Result<Vec<KeyState>> {
    let state = |(key, answer): (&Key, _)| {
        let mut reader = Reader::new(&key.name, "", answer);
        let (is_owned, text): (i64, String) = (reader.get("owner")?, reader.get("text")?);
        Ok(match (is_owned, text.is_empty()) {
            (_, false) => KeyState::Finished(text),
            (0, true) => KeyState::Busy,
            (_, true) => KeyState::Owned,
        })
    };
    names.iter().zip(answers).map(state).collect()
}
