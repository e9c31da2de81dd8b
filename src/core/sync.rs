//! The primitives that issuing is built on: std's, or loom's when the models are checked with
//! `--cfg raindrop_loom`.

#[cfg(not(raindrop_loom))]
pub(crate) use std::sync::{
    Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(raindrop_loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(raindrop_loom)]
pub(crate) use std::sync::PoisonError;
