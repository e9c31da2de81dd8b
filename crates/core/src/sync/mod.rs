//! The primitives of issuing: std's, or loom's with the feature `loom`, which checks the models.
//!
//! [`Arc`] is always std's: no invariant depends on when something is dropped, and loom would
//! explore every order of every reference count.

mod slot;

pub(crate) use std::sync::{Arc, PoisonError};

#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(feature = "loom")]
pub(crate) use loom::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(feature = "loom")]
pub(crate) use loom::thread_local;
#[cfg(not(feature = "loom"))]
pub(crate) use std::thread_local;

pub(crate) use self::slot::Slot;

/// The hash function of tables.
#[cfg(not(feature = "loom"))]
pub(crate) type HashState = std::collections::hash_map::RandomState;

/// The hash function of tables, without randomness: each execution of a model must take the same
/// steps.
#[cfg(feature = "loom")]
pub(crate) type HashState =
    std::hash::BuildHasherDefault<std::collections::hash_map::DefaultHasher>;
