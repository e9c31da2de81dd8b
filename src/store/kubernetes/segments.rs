//! Segment codes: a Lease for each, and one for the settings of each managed code.

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use super::{
    KubernetesStore,
    api::Written,
    names::namespace_label,
    object::{
        NAMESPACE, TOKEN, annotation, columns, expect_token, expect_uid, lease, ours, set, uid,
    },
};
use crate::{
    core::lease::Token,
    store::{
        ListedSegment, ManagedCode, NewSegment, Reservation, Reserved, Result, SegmentStore,
        value::Reader,
    },
};

const CODE: &str = ours!("code");
const NEXT: &str = ours!("next");
const STEP: &str = ours!("step");
const UPDATED: &str = ours!("updated-ms");
const CREATED: &str = ours!("created-ms");
const SETTINGS: &str = ours!("settings");

#[async_trait]
impl SegmentStore for KubernetesStore {
    fn segment_table(&self) -> &str {
        &self.settings.segment_table
    }

    async fn prepare_segments(&self) -> Result<()> {
        // Whether the server answers, and lets us read.
        self.api.get(&self.tables.code("default", "default")).await.map(drop)
    }

    async fn create_segments(&self, namespace: &str, codes: &[NewSegment]) -> Result<()> {
        // Nodes that start together create the same codes: most find them there.
        let present = self.codes(Some(namespace)).await?;
        let is_missing = |new: &&NewSegment| {
            !present.iter().any(|lease| annotation(lease, CODE) == Some(&new.code))
        };
        for new in codes.iter().filter(is_missing) {
            let segment = self.new_segment(namespace, &new.code, new.first, 0)?;
            self.api.create(&self.code_lease(&segment, Token::UNUSED)).await?;
        }
        Ok(())
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let Reservation { by, end, token, or_begin_at } = *reservation;
        let name = self.tables.code(namespace, code);
        let mut retries = self.retries();
        loop {
            let found = self.api.get(&name).await?;
            let present = found.as_ref().map(|lease| self.read_code(lease)).transpose()?;
            let Some(from) = present.as_ref().map(|segment| segment.next).or(or_begin_at) else {
                return Ok(Reserved::NoSuchCode);
            };
            let Some(next) = from.checked_add(by).filter(|next| *next <= end) else {
                return Ok(Reserved::Refused { next: from });
            };
            let is_reserved = match &found {
                None => {
                    let segment = self.new_segment(namespace, code, next, by)?;
                    self.api.create(&self.code_lease(&segment, token)).await?.is_some()
                }
                // Nobody has reserved since it was read: every reservation sets a fresh token.
                Some(lease) => self.raise(&name, lease, next, by, token).await? == Written::Done,
            };
            if is_reserved {
                return Ok(Reserved::From(from));
            }
            retries.pause().await?;
        }
    }

    async fn give_back(
        &self,
        namespace: &str,
        code: &str,
        reserved: Token,
        from: u64,
        token: Token,
    ) -> Result<bool> {
        let name = self.tables.code(namespace, code);
        let mut patch = vec![expect_token(reserved)];
        patch.extend(set([
            (TOKEN, token.to_string()),
            (NEXT, from.to_string()),
            (UPDATED, self.present_ms().await?.to_string()),
        ]));
        self.patch_under(&name, reserved, patch).await
    }

    async fn managed_codes(&self, namespace: &str) -> Result<Vec<ManagedCode>> {
        let leases = self.leases_of(&self.tables.settings, Some(namespace), "").await?;
        let read = |lease: &Lease| {
            let row = columns(lease, [CODE, SETTINGS, TOKEN]);
            Reader::new(&self.tables.settings, namespace, row).managed_code()
        };
        let mut codes: Vec<_> = leases.iter().map(read).collect::<Result<_>>()?;
        codes.sort_by(|one: &ManagedCode, other| one.code.cmp(&other.code));
        Ok(codes)
    }

    async fn write_managed_code(
        &self,
        namespace: &str,
        expected: Option<Token>,
        code: &ManagedCode,
    ) -> Result<bool> {
        let ManagedCode { code, settings, token } = code;
        let name = self.tables.code_settings(namespace, code);
        let token = (TOKEN, token.to_string());
        let settings = (SETTINGS, settings.clone());
        if let Some(expected) = expected {
            let mut patch = vec![expect_token(expected)];
            patch.extend(set([token, settings]));
            return self.patch_under(&name, expected, patch).await;
        }
        let lease = lease(
            name,
            [(ours!("table"), &self.tables.settings), (NAMESPACE, &namespace_label(namespace))],
            [(NAMESPACE, namespace.to_owned()), (CODE, code.clone()), token, settings],
        );
        Ok(self.api.create(&lease).await?.is_some())
    }

    async fn count_segments(&self, namespace: &str) -> Result<u64> {
        Ok(self.codes(Some(namespace)).await?.len() as u64)
    }

    async fn segments(&self) -> Result<Vec<ListedSegment>> {
        let leases = self.codes(None).await?;
        let mut listed: Vec<_> =
            leases.iter().map(|lease| self.read_code(lease)).collect::<Result<_>>()?;
        let key = |segment: &ListedSegment| (segment.namespace.clone(), segment.code.clone());
        listed.sort_by_cached_key(key);
        Ok(listed)
    }
}

impl KubernetesStore {
    async fn codes(&self, namespace: Option<&str>) -> Result<Vec<Lease>> {
        self.leases_of(&self.tables.segment, namespace, "").await
    }

    fn read_code(&self, lease: &Lease) -> Result<ListedSegment> {
        let row = columns(lease, [NAMESPACE, CODE, NEXT, STEP, UPDATED, CREATED]);
        Reader::new(&self.settings.segment_table, "", row).listed_segment("next")
    }

    fn new_segment(
        &self,
        namespace: &str,
        code: &str,
        next: u64,
        step: u64,
    ) -> Result<ListedSegment> {
        let now_ms = self.latest_ms()?;
        Ok(ListedSegment {
            namespace: namespace.to_owned(),
            code: code.to_owned(),
            next,
            step,
            updated_ms: now_ms,
            created_ms: now_ms,
        })
    }

    fn code_lease(&self, segment: &ListedSegment, token: Token) -> Lease {
        let ListedSegment { namespace, code, next, step, updated_ms, created_ms } = segment;
        lease(
            self.tables.code(namespace, code),
            [(ours!("table"), &self.tables.segment), (NAMESPACE, &namespace_label(namespace))],
            [
                (NAMESPACE, namespace.clone()),
                (CODE, code.clone()),
                (TOKEN, token.to_string()),
                (NEXT, next.to_string()),
                (STEP, step.to_string()),
                (UPDATED, updated_ms.to_string()),
                (CREATED, created_ms.to_string()),
            ],
        )
    }

    /// Raises the next number of a code, if its Lease is as it was read.
    async fn raise(
        &self,
        name: &str,
        read: &Lease,
        next: u64,
        by: u64,
        token: Token,
    ) -> Result<Written> {
        let mut patch = vec![
            expect_uid(uid(read)),
            json!({ "op": "test", "path": "/metadata/resourceVersion",
                    "value": read.metadata.resource_version }),
        ];
        patch.extend(set([
            (TOKEN, token.to_string()),
            (NEXT, next.to_string()),
            (STEP, by.to_string()),
            (UPDATED, self.latest_ms()?.to_string()),
        ]));
        self.api.patch(name, patch).await
    }

    /// Returns the server's present time, which nobody may have told yet.
    async fn present_ms(&self) -> Result<i64> {
        if self.api.clock.latest_ms().is_none() {
            self.prepare_segments().await?;
        }
        self.latest_ms()
    }
}
