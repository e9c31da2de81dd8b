//! What several test binaries share.
#![allow(clippy::allow_attributes, dead_code, reason = "no binary uses everything")]

pub(crate) mod mariadb;
pub(crate) mod poll;
