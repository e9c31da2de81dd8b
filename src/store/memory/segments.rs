//! Segment codes in memory.

use async_trait::async_trait;

use super::MemoryStore;
use crate::{
    core::lease::Token,
    store::{ListedSegment, NewSegment, Reservation, Reserved, SegmentStore, StoreError},
};

#[derive(Clone, Debug)]
pub(super) struct StoredSegment {
    next: u64,
    step: u64,
    token: Token,
    updated_ms: i64,
}

#[async_trait]
impl SegmentStore for MemoryStore {
    fn segment_table(&self) -> &str {
        "memory"
    }

    async fn prepare_segments(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn create_segments(
        &self,
        namespace: &str,
        codes: &[NewSegment],
    ) -> Result<(), StoreError> {
        let updated_ms = self.clock.now_ms();
        let mut tables = self.tables();
        for NewSegment { code, first } in codes {
            let key = (namespace.to_owned(), code.clone());
            tables.segments.entry(key).or_insert_with(|| StoredSegment {
                next: *first,
                step: 0,
                token: Token::UNUSED,
                updated_ms,
            });
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
        let updated_ms = self.clock.now_ms();
        let mut tables = self.tables();
        let key = (namespace.to_owned(), code.to_owned());
        let present = tables.segments.get(&key).map(|segment| segment.next);
        let Some(from) = present.or(or_begin_at) else { return Ok(Reserved::NoSuchCode) };
        match from.checked_add(by).filter(|next| *next <= end) {
            None => Ok(Reserved::Refused { next: from }),
            Some(next) => {
                let reserved = StoredSegment { next, step: by, token, updated_ms };
                tables.segments.insert(key, reserved);
                Ok(Reserved::From(from))
            }
        }
    }

    async fn give_back(
        &self,
        namespace: &str,
        code: &str,
        reserved: Token,
        from: u64,
        token: Token,
    ) -> Result<bool, StoreError> {
        let updated_ms = self.clock.now_ms();
        let key = (namespace.to_owned(), code.to_owned());
        let mut tables = self.tables();
        let segment = tables.segments.get_mut(&key);
        let Some(segment) = segment.filter(|segment| segment.token == reserved) else {
            return Ok(false);
        };
        *segment = StoredSegment { next: from, step: segment.step, token, updated_ms };
        Ok(true)
    }

    async fn segments(&self) -> Result<Vec<ListedSegment>, StoreError> {
        let listed =
            |((namespace, code), segment): (&(String, String), &StoredSegment)| ListedSegment {
                namespace: namespace.clone(),
                code: code.clone(),
                next: segment.next,
                step: segment.step,
                updated_ms: segment.updated_ms,
            };
        Ok(self.tables().segments.iter().map(listed).collect())
    }
}
