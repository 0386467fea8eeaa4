//! Measures calls of programs, in series that are sampled in turn.

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};
use std::{process::Command, time::Instant};

/// Runs a command to its end, and returns the time from before its process is created until it has
/// been reaped, in microseconds.
///
/// # Panics
/// The command fails.
pub(crate) fn timed(command: &mut Command) -> f64 {
    let start = Instant::now();
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let took = start.elapsed().as_secs_f64() * 1e6;
    assert!(status.success(), "{command:?}: {status}");
    took
}

/// A call of a program, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) time: f64,
    /// CPU time of the process, and of its children that it waited for.
    pub(crate) cpu: f64,
}

/// Runs a command as [`timed`] does, and measures its CPU time, too. No other child of this process
/// may end meanwhile.
pub(crate) fn called(command: &mut Command) -> Call {
    let before = children_cpu();
    let time = timed(command);
    Call { time, cpu: children_cpu() - before }
}

/// CPU time of all children that have ended, and of their own ended children, in microseconds.
pub(crate) fn children_cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the call has no error");
    let of = |time: TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
    of(usage.user_time()) + of(usage.system_time())
}

/// A series: each call takes one sample.
pub(crate) type Measured<'a, T> = Box<dyn FnMut() -> T + 'a>;

/// Takes one sample of each series in each round. The order rotates, so that no series is always
/// the first of a round. The first rounds only fill caches and are not counted.
pub(crate) fn interleaved<T>(rounds: usize, mut series: Vec<Measured<'_, T>>) -> Vec<Vec<T>> {
    let mut samples: Vec<Vec<T>> = series.iter().map(|_| Vec::with_capacity(rounds)).collect();
    let count = series.len();
    for round in 0..rounds + WARM_UP {
        for offset in 0..count {
            let which = (round + offset) % count;
            let sample = series[which]();
            if round >= WARM_UP {
                samples[which].push(sample);
            }
        }
    }
    samples
}

/// Number of rounds that only fill caches.
const WARM_UP: usize = 2;
