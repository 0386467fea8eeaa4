//! Threads in which expressions are parsed and evaluated: both are recursive, and an evaluation may
//! take longer than the runtime waits.

use std::{io, sync::mpsc, thread, time::Duration};

/// Stack for the most complex expression, in bytes. Only what is used of it takes memory.
const STACK: usize = 64 << 20;

/// What is reported of a panic.
const PANIC: &str = "the interpreter of expressions panicked";

/// Runs a function that parses or evaluates expressions, in a thread with a stack that is large
/// enough for all that are allowed.
///
/// # Errors
/// The thread cannot be created, or the function panics.
pub(crate) fn with_stack<T: Send>(function: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, function)?;
        thread.join().map_err(|_| io::Error::other(PANIC))
    })
}

/// Runs a function as [`with_stack`] does, but waits no longer than `limit`. After that, the thread
/// goes on without anyone who waits for it.
///
/// # Errors
/// The thread cannot be created, the function panics, or it takes too long.
pub(crate) fn with_stack_and_limit<T: Send + 'static>(
    limit: Duration,
    function: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().stack_size(STACK).spawn(move || sender.send(function()).ok())?;
    receiver.recv_timeout(limit).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => {
            let text = format!("the evaluation of the rules took longer than {limit:?}");
            io::Error::new(io::ErrorKind::TimedOut, text)
        }
        mpsc::RecvTimeoutError::Disconnected => io::Error::other(PANIC),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_or_takes_too_long_is_an_error() {
        let (sender, receiver) = mpsc::channel::<()>();
        let limited = with_stack_and_limit(Duration::ZERO, move || receiver.recv().ok());
        assert_eq!(limited.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(sender);
        let panicked = with_stack_and_limit(Duration::from_secs(60), || panic!("of a test"));
        assert_eq!(panicked.unwrap_err().to_string(), PANIC);
    }
}
