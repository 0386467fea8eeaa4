//! Flag that stops the threads of a test.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Flag that requests threads to stop.
#[derive(Debug)]
pub struct StopFlag(Arc<AtomicBool>);

/// Guard that sets a [`StopFlag`] when it is dropped, even if the test panics: a thread scope
/// propagates a panic only after all its threads have ended.
#[derive(Debug)]
pub struct StopGuard(Arc<AtomicBool>);

impl StopFlag {
    /// Returns a flag and its guard, which is to be dropped inside the scope of the threads.
    pub fn new() -> (Self, StopGuard) {
        let flag = Arc::new(AtomicBool::new(false));
        (Self(flag.clone()), StopGuard(flag))
    }

    /// Whether threads are to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
