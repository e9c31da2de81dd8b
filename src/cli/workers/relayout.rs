//! `raindrop workers relayout`.

use serde::Serialize;

use super::Target;
use crate::{
    cli::{confirm::Confirmation, failure::Failure},
    core::visible::visible,
    keeper::{FinishedMove, OperatorError, RelayoutOutcome, RelayoutPreview},
};

/// The document that `raindrop workers relayout --json` prints.
#[derive(Serialize)]
struct Document {
    /// Whether the namespace has the configured layout now.
    done: bool,
    namespace: String,
    effect: Effect,
    /// The configured layout.
    layout: String,
    /// The old layout, if it is moved from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The largest ID that the old marks allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    largest_old: Option<String>,
    /// The smallest ID of the configured layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    smallest_new: Option<String>,
}

/// The effect of the command, or with `--dry-run` the one that it would have.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Effect {
    /// The namespace has the configured layout already.
    None,
    /// It moves to the configured layout.
    Moves,
    /// An unfinished move away from the configured layout is undone.
    Reverts,
}

impl Document {
    fn of(target: &Target<'_>, effect: Effect) -> Self {
        Self {
            done: false,
            namespace: target.settings.namespace.clone(),
            effect,
            layout: target.settings.layout.canonical(),
            from: None,
            largest_old: None,
            smallest_new: None,
        }
    }
}

pub(super) async fn relayout(
    target: &mut Target<'_>,
    confirmation: &Confirmation,
) -> Result<(), Failure> {
    let ours = target.settings.layout.canonical();
    if target.is_unused().await? {
        let namespace = target.settings.namespace.clone();
        return Err(OperatorError::NoRecord { namespace }.into());
    }
    let (place, report) = (target.place(), target.report);
    let mut document = match target.operator.preview_relayout().await? {
        RelayoutPreview::NothingToDo => {
            report.say(&format!("nothing to do: the layout is `{ours}` already"))?;
            return report.document(&Document { done: true, ..Document::of(target, Effect::None) });
        }
        RelayoutPreview::Move { from, rows, held, largest_old, smallest_new } => {
            let largest = largest_old.map_or("none".into(), |largest| largest.to_string());
            let shown = visible(&from);
            report.print(&format!(
                "{place}: frees {rows} worker ids, of which {held} are held, and moves\n\
                 from `{shown}`, with IDs up to {largest},\n\
                 to   `{ours}`, with IDs from {smallest_new} on\n\
                 no node gets a new lease until the move has finished, and afterwards only nodes \
                 with the new layout; those of the old layout issue IDs until their leases are used \
                 up, at most {:?}, and must then be restarted\n",
                target.settings.lease.window,
            ))?;
            Document {
                from: Some(from),
                largest_old: largest_old.map(|largest| largest.to_string()),
                smallest_new: Some(smallest_new.to_string()),
                ..Document::of(target, Effect::Moves)
            }
        }
        RelayoutPreview::Finish { from, rows } => {
            report.print(&format!(
                "{place}: finishes an interrupted move of {rows} worker ids\nfrom `{}`\nto   `{ours}`\n\
                 no node gets a new lease until it has finished\n",
                visible(&from)
            ))?;
            Document { from: Some(from), ..Document::of(target, Effect::Moves) }
        }
        RelayoutPreview::Revert { to } => {
            report.say(&format!("{place}: undoes an unfinished move from `{ours}` to `{to}`"))?;
            Document::of(target, Effect::Reverts)
        }
    };
    if confirmation.is_given()? {
        perform(target, &ours, &mut document).await?;
        document.done = true;
    }
    report.document(&document)
}

/// Moves the layout, and says what was done.
async fn perform(
    target: &mut Target<'_>,
    ours: &str,
    document: &mut Document,
) -> Result<(), Failure> {
    let report = target.report;
    match target.operator.relayout().await? {
        RelayoutOutcome::NothingToDo => {
            document.effect = Effect::None;
            report.say(&format!("nothing to do: the layout is `{ours}` already"))
        }
        RelayoutOutcome::Reverted { to } => {
            document.effect = Effect::Reverts;
            report.say(&format!(
                "the unfinished move to `{to}` was undone: the layout is `{ours}`. Restart the \
                 nodes that ran meanwhile"
            ))
        }
        RelayoutOutcome::Moved(FinishedMove { from, largest_old, smallest_new, resumed }) => {
            document.largest_old = largest_old.map(|largest| largest.to_string());
            document.smallest_new = Some(smallest_new.to_string());
            let largest = match largest_old {
                Some(largest) => format!("the largest ID that the old marks allow is {largest}"),
                None if resumed => "an interrupted move was finished".to_owned(),
                None => "the old marks allow no ID at all".to_owned(),
            };
            let shown = visible(&from);
            report.print(&format!(
                "{largest}, the smallest of the new layout {smallest_new}\n\
                 the layout was `{shown}`\n\
                 the layout is  `{ours}`\n\
                 start the nodes with this configuration; those of the old layout stop when their \
                 leases end\n"
            ))
        }
    }
}
