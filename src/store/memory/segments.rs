//! Segment codes in memory.

use async_trait::async_trait;

use super::MemoryStore;
use crate::{
    core::lease::Token,
    store::{ListedSegment, NewSegment, Reservation, Reserved, SegmentStore, StoreError},
};

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
            let (namespace, code) = (namespace.to_owned(), code.clone());
            tables.segments.entry((namespace.clone(), code.clone())).or_insert_with(|| {
                let next = *first;
                (ListedSegment { namespace, code, next, step: 0, updated_ms }, Token::UNUSED)
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
        let (namespace, code) = (namespace.to_owned(), code.to_owned());
        let key = (namespace.clone(), code.clone());
        let present = tables.segments.get(&key).map(|(segment, _)| segment.next);
        let Some(from) = present.or(or_begin_at) else { return Ok(Reserved::NoSuchCode) };
        match from.checked_add(by).filter(|next| *next <= end) {
            None => Ok(Reserved::Refused { next: from }),
            Some(next) => {
                let reserved = ListedSegment { namespace, code, next, step: by, updated_ms };
                tables.segments.insert(key, (reserved, token));
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
        let segment = segment.filter(|(_, present)| *present == reserved);
        let given = segment.map(|(segment, present)| {
            (segment.next, segment.updated_ms, *present) = (from, updated_ms, token);
        });
        Ok(given.is_some())
    }

    async fn segments(&self) -> Result<Vec<ListedSegment>, StoreError> {
        Ok(self.tables().segments.values().map(|(segment, _)| segment.clone()).collect())
    }
}
