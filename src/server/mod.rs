//! The HTTP service.

pub mod config;
