//! How an ID is handed out: cursors, grants and claims.

mod run;
mod settings;

pub use self::{
    run::{IdRange, Run},
    settings::{IssueSettings, RollbackPolicy},
};
