//! Says how a lease was lost, for the log.

use raindrop_core::lease::Row;

/// Returns how a lease was lost, as far as the row shows it: a process writes its own holder, and
/// an operator leaves the holder as it is.
pub(crate) fn loss(row: &Row, own_holder: &str) -> &'static str {
    if row.was_never_written() {
        "the store lost the row, which was created again"
    } else if row.holder != own_holder {
        "another process took the row"
    } else if row.free {
        "an operator or another process released the row"
    } else {
        "a process with the same holder took the row, or the store lost writes"
    }
}
