//! The primitives that issuing is built on: std's, or loom's when the models are checked with
//! `--cfg raindrop_loom`.
//!
//! [`Arc`] is std's in both: no invariant of issuing rests on when something is dropped, and
//! loom would explore every order of every reference count.

mod slot;

pub(crate) use std::sync::{Arc, PoisonError};

#[cfg(not(raindrop_loom))]
pub(crate) use std::sync::{
    Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(raindrop_loom)]
pub(crate) use loom::sync::{
    Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
};

pub(crate) use self::slot::Slot;

/// What chooses the place of a key in a hash table.
#[cfg(not(raindrop_loom))]
pub(crate) type HashState = std::collections::hash_map::RandomState;

/// Without randomness: each execution of a model must take the same steps in the same order.
#[cfg(raindrop_loom)]
pub(crate) type HashState =
    std::hash::BuildHasherDefault<std::collections::hash_map::DefaultHasher>;
