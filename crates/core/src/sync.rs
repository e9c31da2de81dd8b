//! Synchronisation primitives for issuing: those of std or, with the feature `loom`, those of loom.
//!
//! [`Arc`] is always that of std. No invariant depends on when a value is dropped, and loom would
//! explore every order of every change of a reference count.

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

#[cfg(feature = "loom")]
pub(crate) use self::explored::Slot;
#[cfg(not(feature = "loom"))]
pub(crate) use self::lock_free::Slot;

/// The hash function of tables.
#[cfg(not(feature = "loom"))]
pub(crate) type HashState = std::collections::hash_map::RandomState;

/// The hash function of tables, without randomness: every execution of a model must take the same
/// steps.
#[cfg(feature = "loom")]
pub(crate) type HashState =
    std::hash::BuildHasherDefault<std::collections::hash_map::DefaultHasher>;

/// A shared value that is read without a lock and replaced as a whole.
#[cfg(not(feature = "loom"))]
mod lock_free {
    use std::{ops::Deref, sync::Arc};

    use arc_swap::ArcSwapOption;

    #[derive(Debug)]
    pub(crate) struct Slot<T>(ArcSwapOption<T>);

    impl<T> Slot<T> {
        pub(crate) fn empty() -> Self {
            Self(ArcSwapOption::empty())
        }

        /// Borrows the value for a short time.
        pub(crate) fn load(&self) -> impl Deref<Target = Option<Arc<T>>> {
            self.0.load()
        }

        /// Returns the value.
        pub(crate) fn load_full(&self) -> Option<Arc<T>> {
            self.0.load_full()
        }

        /// Replaces the value and returns the one before.
        pub(crate) fn swap(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
            self.0.swap(value)
        }
    }
}

/// A slot for loom: an index selects the value, and loom explores which index a reader sees.
///
/// The list of values has a lock of std, which loom does not see. So a look-up adds no ordering
/// that the lock-free slot lacks.
#[cfg(feature = "loom")]
mod explored {
    use std::{
        ops::Deref,
        sync::{Arc, Mutex, PoisonError},
    };

    use loom::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug)]
    pub(crate) struct Slot<T> {
        present: AtomicUsize,
        values: Mutex<Vec<Option<Arc<T>>>>,
    }

    impl<T> Slot<T> {
        pub(crate) fn empty() -> Self {
            Self { present: AtomicUsize::new(0), values: Mutex::new(vec![None]) }
        }

        pub(crate) fn load(&self) -> impl Deref<Target = Option<Arc<T>>> {
            Box::new(self.load_full())
        }

        pub(crate) fn load_full(&self) -> Option<Arc<T>> {
            self.value(self.present.load(Ordering::Acquire))
        }

        pub(crate) fn swap(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
            let index = {
                let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
                values.push(value);
                values.len() - 1
            };
            self.value(self.present.swap(index, Ordering::AcqRel))
        }

        fn value(&self, index: usize) -> Option<Arc<T>> {
            self.values.lock().unwrap_or_else(PoisonError::into_inner)[index].clone()
        }
    }
}
