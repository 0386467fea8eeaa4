//! Following of wrappers that become the runtime by `exec`: `nrid` watches the process by a pidfd,
//! instead of waiting for a report of the wrapper. The engine gets the runtime's own exit status.
//! If `nrid` ends meanwhile, the next one follows the process.
//!
//! The outcome is the exit status, or, where the kernel does not tell it, what the files of the
//! runtime show: a FIFO that is gone means started, a directory that is gone means deleted. The
//! next `nrid` decides by the same files (`state/followed.rs`), and does not call the runtime.
//! Runtimes whose files are not known are not followed: their wrappers wait, and report to the
//! `nrid` that they asked. If that one ends before, the next one asks the runtime for its `state`.

use crate::{
    channel::Channel,
    host::{
        descriptors::DescriptorPermit,
        process::{Process, ProcessIdentity},
        runtime::State,
    },
    lifecycle::missed_start::{self, may_have_started},
    service::Service,
    state::{
        container::Container,
        followed::{Entry, FollowedRuntime, FollowedVerb},
        record::Record,
        status::ContainerStatus,
    },
    verb::request::VerbRequest,
};
use nri_control::{Reply, Substitute};
use std::sync::Arc;

/// The process of a wrapper that is to become the runtime.
#[derive(Debug)]
pub struct Follower {
    process: Process,
    identity: ProcessIdentity,
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

    /// Whether a `start` with this outcome has started the container.
    pub async fn has_started(self, container: &Arc<Container>) -> bool {
        match self {
            Self::Succeeded => true,
            Self::Failed => false,
            Self::Unknown => may_have_started(container).await,
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
        self.follower(channel.peer().ok()??)
    }

    /// Opens a process; `None` if it has ended and was reaped, or cannot be opened.
    fn follower(&self, identity: ProcessIdentity) -> Option<Follower> {
        let permit = self.process.descriptors.pidfd().ok()?;
        let process = Process::open(identity.pid).ok()??;
        // The pid may have been reused before the pidfd was open.
        let is_same = process.start_time() == Some(identity.start_time);
        is_same.then_some(Follower { process, identity, _permit: permit })
    }

    /// Lets the wrapper become the runtime, and waits for the end of the process. The caller has to
    /// remove the entry when the outcome is recorded.
    pub async fn run_followed(
        &self,
        follower: Follower,
        verb: FollowedVerb,
        record: &Record,
        channel: &mut Channel,
    ) -> (Outcome, Entry) {
        // Before the reply: if this nrid is killed right after the reply, the next one follows.
        let entry = self.verbs.followed.add(FollowedRuntime::new(verb, follower.identity, record));
        // A wrapper that does not get the reply ends without calling the runtime, or sends its
        // request to the next nrid.
        let substitute = Substitute { exec: true, ..Default::default() };
        let _ = channel.send(&Reply::Proceed(substitute)).await;
        (follower.outcome().await, entry)
    }

    /// Follows the runtimes that the previous `nrid` followed and that still run.
    pub fn follow_of_previous(self: &Arc<Self>) {
        for (entry, runtime) in self.verbs.followed.all() {
            let Some(container) = self.registry.by_hook_name(runtime.container()) else {
                self.verbs.followed.remove(entry);
                continue;
            };
            let service = self.clone();
            tokio::spawn(async move {
                match runtime.verb {
                    FollowedVerb::Start => service.follow_start(&container, runtime.process).await,
                    FollowedVerb::Delete => {
                        service.follow_delete(&container, runtime.process).await;
                    }
                }
                service.verbs.followed.remove(entry);
            });
        }
    }

    async fn follow_start(self: &Arc<Self>, container: &Arc<Container>, runtime: ProcessIdentity) {
        let outcome = self.outcome_of(runtime).await;
        let Some(container) = self.lock(container).await else { return };
        // If the wrapper did not get the reply of the previous nrid, it has sent its request again,
        // and that request may have been served.
        if container.status() < ContainerStatus::Running && outcome.has_started(&container).await {
            let pid = container.record().pid.unwrap_or_default();
            self.apply_state(&container, &State { status: "running".to_owned(), pid }).await;
        }
    }

    async fn follow_delete(self: &Arc<Self>, container: &Arc<Container>, runtime: ProcessIdentity) {
        let _deleting = container.start_delete();
        let outcome = self.outcome_of(runtime).await;
        let Some(container) = self.lock(container).await else { return };
        if outcome == Outcome::Succeeded || !container.exists().await {
            self.on_removed(&container).await;
        }
    }

    /// Waits for the end of a process. The container lock must not be held: the process may still
    /// be the wrapper, which sends its request again and waits for the lock.
    async fn outcome_of(&self, process: ProcessIdentity) -> Outcome {
        match self.follower(process) {
            Some(follower) => follower.outcome().await,
            None => {
                self.wait_for_end(process).await;
                Outcome::Unknown
            }
        }
    }
}

impl Follower {
    /// Waits for the end of the process.
    async fn outcome(self) -> Outcome {
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
