//! Threads that work for as long as a test goes on.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Whether a test still goes on, for its threads.
#[derive(Debug)]
pub struct Going(Arc<AtomicBool>);

/// Ends what goes on when it is dropped, so also where the test fails: a scope waits for its
/// threads.
#[derive(Debug)]
pub struct End(Arc<AtomicBool>);

impl Going {
    /// One that goes on, and its end, which is to be dropped inside of the scope of the threads.
    pub fn new() -> (Self, End) {
        let going = Arc::new(AtomicBool::new(true));
        (Self(going.clone()), End(going))
    }

    /// It has not ended.
    pub fn on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
