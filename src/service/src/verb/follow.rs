//! Following of wrappers that become the runtime by `exec`: `nrid` watches the process by a pidfd,
//! instead of waiting for a report of the wrapper. The engine gets the runtime's own exit status.

use crate::{
    channel::Channel,
    host::{
        descriptors::DescriptorPermit,
        process::{Process, ProcessIdentity},
    },
    lifecycle::missed_start,
    service::Service,
    state::record::Record,
    verb::request::VerbRequest,
};
use nri_control::{Reply, Substitute};

/// The process of a wrapper that is to become the runtime.
#[derive(Debug)]
pub struct Follower {
    process: Process,
    _permit: DescriptorPermit,
}

/// Outcome of a followed runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The runtime exited with code 0.
    Succeeded,
    /// The runtime exited with another code.
    Failed,
    /// The runtime was killed, or its exit code is not known: only its files show what it did.
    Unknown,
}

impl Outcome {
    fn of(wait_status: Option<i32>) -> Self {
        match wait_status {
            Some(0) => Self::Succeeded,
            Some(status) if status & 0x7f == 0 => Self::Failed,
            _ => Self::Unknown,
        }
    }
}

impl Service {
    /// Opens the process of a wrapper that is to become the runtime. Returns `None` if the wrapper
    /// has to report instead: the wrapper cannot become the runtime, the runtime's files would not
    /// show an unknown outcome, or the process cannot be opened.
    pub fn follow(
        &self,
        channel: &Channel,
        request: &VerbRequest,
        record: &Record,
    ) -> Option<Follower> {
        let shows_outcome =
            record.runtime.namespace_inode().is_none() && missed_start::shows_starts(record);
        if !request.begin.follow || !shows_outcome {
            return None;
        }
        let ProcessIdentity { pid, start_time } = channel.peer().ok()??;
        let permit = self.descriptors.pidfd().ok()?;
        let process = Process::open(pid).ok()??;
        // The pid may have been reused before the pidfd was open.
        let is_wrapper = process.start_time() == Some(start_time);
        is_wrapper.then_some(Follower { process, _permit: permit })
    }
}

impl Follower {
    /// Lets the wrapper become the runtime, and waits for the end of the process.
    pub async fn run(self, channel: &mut Channel) -> Outcome {
        // A wrapper that does not get the reply ends without calling the runtime.
        let _ =
            channel.send(&Reply::Proceed(Substitute { exec: true, ..Default::default() })).await;
        self.process.wait_for_exit().await;
        if self.process.wait_status().is_none() {
            self.process.wait_until_reaped().await;
        }
        Outcome::of(self.process.wait_status())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_runtime_has_an_unknown_outcome() {
        for (status, outcome) in [
            (Some(0), Outcome::Succeeded),
            (Some(1 << 8), Outcome::Failed),
            (Some(9), Outcome::Unknown),
            (None, Outcome::Unknown),
        ] {
            assert_eq!(Outcome::of(status), outcome, "{status:?}");
        }
    }
}
