//! Reply of a program that is measured: times of its creations, and its CPU time.

use nix::sys::resource::{UsageWho, getrusage};
use std::time::{Duration, Instant};

/// The measured times as the harness reads them.
pub(crate) struct Reply(pub(crate) serde_json::Value);

impl Reply {
    /// Measures `work`, which adds the time of each creation.
    pub(crate) fn measure(work: impl FnOnce(&mut Vec<Duration>)) -> Self {
        let mut took = Vec::new();
        let (cpu_before, start) = (cpu(), Instant::now());
        work(&mut took);
        let (elapsed, used) = (microseconds(start.elapsed()), cpu() - cpu_before);
        let took: Vec<_> = took.into_iter().map(microseconds).collect();
        Self(serde_json::json!({ "took": took, "elapsed": elapsed, "cpu": used }))
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// CPU time of this process in microseconds.
fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the call has no error");
    let of = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
    of(usage.user_time()) + of(usage.system_time())
}
