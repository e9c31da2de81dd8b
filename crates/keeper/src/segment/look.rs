//! Looks whether the store still has what it reserved.
//!
//! A store may go back in place: a backup, a snapshot or a dump under the same identity. Then it
//! reserves the numbers again that a process has in hand, and nothing tells that process while its
//! block lasts. So the task compares each code that is in use with its row, at every poll. The rows
//! are read many at a time: until a code was looked at, its numbers may repeat.

use std::sync::Arc;

use raindrop_core::{lease::Token, segment::CodeRow};
use raindrop_store::StoreError;

use super::{
    code::{Code, Demand},
    code_table::CodeTable,
};

/// A code to look at, as it was before its row is read.
struct Look {
    code: Arc<Code>,
    /// How many numbers were handed out.
    handed_out: u64,
    /// One past the last number of its last block.
    last_block_end: u64,
}

impl Look {
    /// Returns the look at a code whose last block is of the present epoch, if numbers of it were
    /// handed out since the last look.
    fn due(code: Arc<Code>, present: Token) -> Option<Self> {
        let Demand { epoch, last_block_end, looked, .. } = *code.demand();
        let handed_out = code.cursor.handed_out();
        let is_due = epoch == Some(present) && handed_out != looked;
        is_due.then_some(Self { code, handed_out, last_block_end })
    }

    /// Notes the look, and returns whether the store lost the last block. Blocks that are reserved
    /// meanwhile only raise the row.
    fn went_back(&self, row: Option<CodeRow>) -> bool {
        self.code.demand().looked = self.handed_out;
        row.is_some_and(|row| row.next < self.last_block_end)
    }
}

/// Looks at the codes in use. If the store lost a block of one, begins a new epoch and gives up the
/// blocks of all. Returns the last error: a row that cannot be read hides no other.
pub(super) async fn look(codes: &CodeTable, present: Token) -> Result<(), StoreError> {
    let namespace = &codes.namespace;
    let looks = codes.all().into_iter().filter_map(|code| Look::due(code, present));
    let looks: Vec<Look> = looks.collect();
    let mut looked = Ok(());
    for looks in looks.chunks(namespace.shared.store.codes_at_once()) {
        let names: Vec<&str> = looks.iter().map(|look| look.code.name.as_str()).collect();
        let rows = namespace.look_at_all(&names).await?;
        for (look, row) in looks.iter().zip(rows) {
            match row {
                Ok(row) if look.went_back(row) => {
                    let (name, code) = (namespace.name(), &look.code.name);
                    tracing::error!(namespace = name, code, "the store went back");
                    let present = namespace.went_back(present).await?.epoch();
                    codes.leave_other_epochs(present);
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) => looked = Err(error),
            }
        }
    }
    looked
}
