//! Calls of the store, with deadlines and timings.

use std::time::Duration;

use raindrop_store::StoreError;
use tokio::time::{Instant, timeout};

use super::{Observer, StoreOperation};

/// Bounds an engine that exceeds its own time-outs.
const DEADLINE: Duration = Duration::from_secs(10);
/// Creating tables and thousands of rows may take longer.
const PREPARE_DEADLINE: Duration = Duration::from_secs(60);

/// Awaits a call of the store until its deadline, and reports its duration.
pub(super) async fn store_call<T>(
    observer: &dyn Observer,
    operation: StoreOperation,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let after = match operation {
        StoreOperation::Prepare => PREPARE_DEADLINE,
        StoreOperation::Read | StoreOperation::Swap | StoreOperation::Reserve => DEADLINE,
    };
    let began = Instant::now();
    let answer = timeout(after, call).await.unwrap_or(Err(StoreError::TimedOut { after }));
    observer.store_operation(operation, began.elapsed());
    answer
}
