//! `raindrop workers relayout`.

use super::Target;
use crate::{
    cli::{
        confirm::Confirmation,
        failure::Failure,
        output::{print, say},
    },
    core::visible::visible,
    keeper::{FinishedMove, OperatorError, RelayoutOutcome, RelayoutPreview},
};

pub(super) async fn relayout(
    target: &mut Target<'_>,
    confirmation: &Confirmation,
) -> Result<(), Failure> {
    let ours = target.settings.layout.canonical();
    if target.is_unused().await? {
        let namespace = target.settings.namespace.clone();
        return Err(OperatorError::NoRecord { namespace }.into());
    }
    let place = target.place();
    match target.operator.preview_relayout().await? {
        RelayoutPreview::NothingToDo => {
            return say(&format!("nothing to do: the layout is `{ours}` already"));
        }
        RelayoutPreview::Move { from, rows, held, largest_old, smallest_new } => {
            let largest = largest_old.map_or("none".into(), |largest| largest.to_string());
            let from = visible(&from);
            print(&format!(
                "{place}: frees {rows} worker ids, of which {held} are held, and moves\n\
                 from `{from}`, with IDs up to {largest},\n\
                 to   `{ours}`, with IDs from {smallest_new} on\n\
                 no node gets a new lease until the move has finished, and afterwards only nodes \
                 with the new layout; those of the old layout issue IDs until their leases are used \
                 up, at most {:?}, and must then be restarted\n",
                target.settings.lease.window,
            ))
        }
        RelayoutPreview::Finish { from, rows } => print(&format!(
            "{place}: finishes an interrupted move of {rows} worker ids\nfrom `{}`\nto   `{ours}`\nno \
             node gets a new lease until it has finished\n",
            visible(&from)
        )),
        RelayoutPreview::Revert { to } => {
            say(&format!("{place}: undoes an unfinished move from `{ours}` to `{to}`"))
        }
    }?;
    if !confirmation.is_given()? {
        return Ok(());
    }
    match target.operator.relayout().await? {
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
            let from = visible(&from);
            print(&format!(
                "{largest}, the smallest of the new layout {smallest_new}\n\
                 the layout was `{from}`\n\
                 the layout is  `{ours}`\n\
                 start the nodes with this configuration; those of the old layout stop when their \
                 leases end\n"
            ))
        }
    }
}
