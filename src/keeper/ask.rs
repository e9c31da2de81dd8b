//! Questions to the store, bounded and timed.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{Observer, StoreOperation};
use crate::store::StoreError;

/// Engines have time-outs of their own; this bounds those that break them.
const STORE_DEADLINE: Duration = Duration::from_secs(10);
/// Creating tables and thousands of rows may take longer.
const PREPARE_DEADLINE: Duration = Duration::from_secs(60);

/// Asks the store, and reports how long it took.
pub(super) async fn ask<T>(
    observer: &dyn Observer,
    operation: StoreOperation,
    question: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let after = match operation {
        StoreOperation::Prepare => PREPARE_DEADLINE,
        StoreOperation::Read | StoreOperation::Swap | StoreOperation::Reserve => STORE_DEADLINE,
    };
    let began = Instant::now();
    let answer = timeout(after, question).await.unwrap_or(Err(StoreError::TimedOut { after }));
    observer.store_operation(operation, began.elapsed());
    answer
}
