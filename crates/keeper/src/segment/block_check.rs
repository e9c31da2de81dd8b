//! Checks whether the store still has the blocks that it reserved.
//!
//! A store may be rolled back in place, by a backup, a snapshot or a dump under the same identity.
//! Then it reserves again the numbers that a process already has, and the process does not notice
//! while its block lasts. So at every poll the task compares each code in use with its row. One
//! call reads many rows; until the task has checked a code, its numbers may repeat.
//!
//! It reserves nothing. If a block was lost, it begins a new epoch and gives up all blocks of the
//! namespace. A row that is missing is left to `refill.rs`. Tests: `segment_block_checks.rs` in
//! `src/tests`.

use std::sync::Arc;

use raindrop_core::{lease::Token, segment::CodeRow};
use raindrop_store::StoreError;

use super::{
    code::{Code, Demand},
    code_table::CodeTable,
    namespace::Purpose,
};

/// A code to check, as it was before its row is read.
struct BlockCheck {
    code: Arc<Code>,
    /// How many numbers of it were handed out.
    handed_out: u64,
    /// One past the last number of the code's last block.
    last_block_end: u64,
}

impl BlockCheck {
    /// Returns the check of a code, if its last block is of the present epoch and numbers of it
    /// were handed out since the last check.
    fn due(code: Arc<Code>, present: Token) -> Option<Self> {
        let Demand { epoch, last_block_end, handed_out_at_check, .. } = *code.demand();
        let handed_out = code.cursor.handed_out();
        let is_due = epoch == Some(present) && handed_out != handed_out_at_check;
        is_due.then_some(Self { code, handed_out, last_block_end })
    }

    /// Records the check, and returns whether the store lost the last block. Blocks that are
    /// reserved meanwhile only raise the row's next number.
    fn lost_last_block(&self, row: Option<CodeRow>) -> bool {
        self.code.demand().handed_out_at_check = self.handed_out;
        row.is_some_and(|row| row.next < self.last_block_end)
    }
}

/// Checks the codes in use. If the store lost a block of one of them, begins a new epoch and gives
/// up the blocks of all. Returns the last error: a row that cannot be read does not hide the
/// others. A row that a slow store did not return beside others is none: a later check reads it.
pub(super) async fn check_blocks(codes: &CodeTable, present: Token) -> Result<(), StoreError> {
    let namespace = &codes.namespace;
    let due = codes.all().into_iter().filter_map(|code| BlockCheck::due(code, present));
    let checks: Vec<BlockCheck> = due.collect();
    let mut result = Ok(());
    for part in checks.chunks(namespace.shared.store.codes_at_once()) {
        let names: Vec<&str> = part.iter().map(|check| check.code.name.as_str()).collect();
        let rows = namespace.read_rows(&names).await?;
        for (check, row) in part.iter().zip(rows) {
            match row {
                Ok(row) if check.lost_last_block(row) => {
                    let (name, code) = (namespace.name(), &check.code.name);
                    tracing::error!(namespace = name, code, "the store went back");
                    let begun = namespace.begin_epoch_after_loss(Purpose::Poll, present).await?;
                    codes.leave_other_epochs(begun.epoch());
                    return Ok(());
                }
                Ok(_) | Err(StoreError::TimedOut { .. }) => {}
                Err(error) => result = Err(error),
            }
        }
    }
    result
}
