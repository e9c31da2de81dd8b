//! Calls of the store, with deadlines and timings.

use raindrop_store::{Store, StoreError};
use tokio::time::{Instant, timeout};

use super::observer::{Observer, StoreOperation};

/// Creating tables and thousands of rows may take as many times as long as another call.
const PREPARING: u32 = 6;

/// Awaits a call of the store, and reports its duration. Gives up if an engine exceeds its own
/// time-outs.
pub(crate) async fn store_call<T>(
    store: &dyn Store,
    observer: &dyn Observer,
    operation: StoreOperation,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let after = match operation {
        StoreOperation::Prepare => store.longest_call() * PREPARING,
        StoreOperation::Read | StoreOperation::Swap | StoreOperation::Reserve => {
            store.longest_call()
        }
    };
    let began = Instant::now();
    let answer = timeout(after, call).await.unwrap_or(Err(StoreError::TimedOut { after }));
    observer.store_operation(operation, began.elapsed());
    answer
}
