//! What a container has got, read from the kernel: by the files of its process in `/proc` and of
//! its cgroups. So no program is needed inside of the container, and plugins cannot distort it.

mod cgroup;
mod process;

pub use cgroup::resource;
pub use process::Process;

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Time limit for what a runtime does after its reply, such as events after a removal.
pub const USUAL: Duration = Duration::from_secs(10);

/// Time limit for the end of a process: an eviction may wait some seconds before it kills it.
pub const END: Duration = Duration::from_secs(30);

/// Repeats a check until it succeeds, or returns its last failure after a time.
///
/// # Errors
/// The last failure.
pub fn within(time: Duration, mut check: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let deadline = Instant::now() + time;
    loop {
        match check() {
            Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(20)), // a poll
            result => return result,
        }
    }
}
