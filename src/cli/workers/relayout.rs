//! `raindrop workers relayout`.

use crate::{
    cli::{failure::Failure, output::say},
    core::layout::Layout,
    keeper::{FinishedMove, Operator, RelayoutOutcome},
};

pub(super) async fn run(layout: &Layout, operator: &mut Operator) -> Result<(), Failure> {
    let ours = layout.canonical();
    match operator.relayout().await? {
        RelayoutOutcome::NothingToDo => {
            say(&format!("nothing to do: the layout is `{ours}` already"))
        }
        RelayoutOutcome::Reverted { to } => say(&format!(
            "the unfinished move to `{to}` was undone: the layout is `{ours}`. Restart the nodes \
             that ran meanwhile"
        )),
        RelayoutOutcome::Moved(FinishedMove { from, largest_old, smallest_new, resumed }) => {
            let largest = match largest_old {
                Some(largest) => format!("the largest ID that the old marks allow is {largest}"),
                None if resumed => "an interrupted move was finished".to_owned(),
                None => "the old marks allow no ID at all".to_owned(),
            };
            say(&format!(
                "{largest}, the smallest of the new layout {smallest_new}\n\
                 the layout was `{from}`\n\
                 the layout is  `{ours}`\n\
                 start the nodes with this configuration; those of the old layout stop when their \
                 leases end"
            ))
        }
    }
}
