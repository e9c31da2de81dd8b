//! Synchronisation primitives for issuing: those of std or, with the feature `loom`, those of loom.
//!
//! [`Arc`] is always that of std. No invariant depends on when a value is dropped, and loom would
//! explore every order of every change of a reference count.

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

/// The hash function of tables, without randomness: every execution of a model must take the same
/// steps.
#[cfg(feature = "loom")]
pub(crate) type HashState =
    std::hash::BuildHasherDefault<std::collections::hash_map::DefaultHasher>;
