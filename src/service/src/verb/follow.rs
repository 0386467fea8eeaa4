//! Wrappers that become the runtime: `nrid` follows the process by a pidfd, and does not wait for a
//! report. The engine gets the exit of the runtime itself.

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

/// How a followed runtime has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It exited with code 0.
    Succeeded,
    /// It exited with another code.
    Failed,
    /// It was killed, or its exit code is not known: only its files show what it did.
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
    /// Opens the process of a wrapper, if the wrapper can become the runtime, and the files of that
    /// runtime show what it did if its exit code is not known. `None`: the wrapper reports.
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
        // If the wrapper does not get the reply, it has ended, or ends without a call.
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
