//! Threads in which expressions are parsed and evaluated: both are recursive, and an evaluation may
//! take longer than the runtime waits.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Stack for the most complex expression, in bytes. Only what is used of it takes memory.
const STACK: usize = 64 << 20;

/// Largest number of evaluations that have not ended. Runtimes send one request after the other, so
/// that all but one are left from requests that took too long. Eight are more than what a pod with
/// its containers leaves, and occupy at most eight CPUs and 512 MiB of stacks.
const MAX_EVALUATIONS: usize = 8;

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

/// How long an evaluation of rules may go on, and where it is.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When expressions begin to fail.
    pub deadline: Instant,
    rule: Mutex<String>,
}

impl Progress {
    /// Returns the progress of an evaluation that begins.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self { deadline, rule: Mutex::default() }
    }

    /// Notes that a rule is evaluated from now on.
    pub(crate) fn enter(&self, rule: &str) {
        rule.clone_into(&mut lock(&self.rule));
    }

    fn rule(&self) -> String {
        lock(&self.rule).clone()
    }
}

/// The evaluations that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Evaluations(Mutex<Vec<Weak<Progress>>>);

impl Evaluations {
    /// Runs a function as [`with_stack`] does, but waits no longer than `limit`. Expressions fail
    /// after half of it. After all of it, the thread goes on without anyone who waits for it.
    ///
    /// # Errors
    /// Too many threads go on already, the thread cannot be created, the function panics, or it
    /// takes too long.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        function: impl FnOnce(&Progress) -> T + Send + 'static,
    ) -> io::Result<T> {
        let progress = Arc::new(Progress::until(Instant::now() + limit / 2));
        self.add(&progress)?;
        let (sender, receiver) = mpsc::channel();
        let of_thread = progress.clone();
        thread::Builder::new().stack_size(STACK).spawn(move || {
            let result = function(&of_thread);
            drop(of_thread);
            sender.send(result).ok()
        })?;
        receiver.recv_timeout(limit).map_err(|error| match error {
            mpsc::RecvTimeoutError::Timeout => {
                let rule = progress.rule();
                let text = format!("the evaluation of the rules took longer than {limit:?}");
                io::Error::new(io::ErrorKind::TimedOut, format!("{text}: it is at rule {rule:?}"))
            }
            mpsc::RecvTimeoutError::Disconnected => io::Error::other(PANIC),
        })
    }

    fn add(&self, progress: &Arc<Progress>) -> io::Result<()> {
        let mut running = lock(&self.0);
        running.retain(|evaluation| evaluation.strong_count() > 0);
        if running.len() < MAX_EVALUATIONS {
            running.push(Arc::downgrade(progress));
            return Ok(());
        }
        let rule = running.iter().find_map(Weak::upgrade).map(|oldest| oldest.rule());
        Err(io::Error::other(format!(
            "the rules are not evaluated: {MAX_EVALUATIONS} earlier evaluations have not ended, \
             the oldest one is at rule {:?}",
            rule.unwrap_or_default()
        )))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_or_takes_too_long_is_an_error() {
        let evaluations = Evaluations::default();
        let (sender, receiver) = mpsc::channel::<()>();
        let limited = evaluations.run(Duration::ZERO, move |_| receiver.recv().ok());
        assert_eq!(limited.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(sender);
        let panicked = evaluations.run(Duration::from_secs(60), |_| panic!("of a test"));
        assert_eq!(panicked.unwrap_err().to_string(), PANIC);
    }

    #[test]
    fn evaluations_that_do_not_end_are_limited_in_number() {
        let evaluations = Evaluations::default();
        let mut held = Vec::new();
        for n in 0..MAX_EVALUATIONS {
            let (release, released) = mpsc::channel::<()>();
            let (at_rule, is_at_rule) = mpsc::channel();
            let late = evaluations.run(Duration::from_millis(1), move |progress| {
                progress.enter(&format!("r{n}"));
                at_rule.send(()).unwrap();
                released.recv().ok()
            });
            assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
            is_at_rule.recv().unwrap();
            held.push(release);
        }
        let one_more = || evaluations.run(Duration::from_secs(60), |_| ());
        let refused = one_more().unwrap_err().to_string();
        assert!(refused.ends_with("the oldest one is at rule \"r0\""), "{refused}");
        held.remove(0);
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(error) = one_more() {
            assert!(Instant::now() < deadline, "{error}");
            thread::yield_now();
        }
    }
}
