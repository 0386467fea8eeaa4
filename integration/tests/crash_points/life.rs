//! The life of a container, one verb after the other, and once more from the same bundle. Something
//! is killed in the middle of it.

use crate::{
    engine,
    host::{Host, NEIGHBOUR_AFTER, PIDS},
    left,
    point::{Point, Victim},
};
use nri_integration::{Bundle, Crash, Ended, Following, untold};

/// What an engine does with a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Create,
    Start,
    /// A plugin answers with an update of the neighbour.
    Update,
    /// It sees what a plugin has added.
    Exec,
    Kill,
    Delete,
    /// Once more, detached.
    Run,
    /// As it runs.
    Remove,
}

impl Step {
    pub(crate) const ALL: [Self; 8] = [
        Self::Create,
        Self::Start,
        Self::Update,
        Self::Exec,
        Self::Kill,
        Self::Delete,
        Self::Run,
        Self::Remove,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Start => "start",
            Self::Update => "update",
            Self::Exec => "exec",
            Self::Kill => "kill",
            Self::Delete => "delete",
            Self::Run => "run",
            Self::Remove => "remove",
        }
    }

    /// Whether its wrapper starts an `nrid` where there is none.
    fn brings_nrid(self) -> bool {
        matches!(self, Self::Create | Self::Start | Self::Update | Self::Run)
    }
}

/// A life that is being lived.
pub(crate) struct Life<'a> {
    pub(crate) host: &'a mut Host,
    pub(crate) id: String,
    pub(crate) bundle: Bundle,
    point: &'a Point,
    crash: Option<Crash>,
    /// Where it happened.
    killed: Option<(Step, String)>,
}

/// Lives; returns what was not done, if it came to that.
pub(crate) fn live(host: &mut Host, point: &Point) -> Option<String> {
    let (id, bundle) = host.next_bundle();
    let mut life = Life { host, id, bundle, point, crash: None, killed: None };
    life.host.set_neighbour();
    let following = life.follow();
    let mut settled = false;
    for step in Step::ALL {
        let before = life.killed.is_some();
        life.step(step);
        if before && !settled && step.brings_nrid() {
            life.host.settle(&format!("after {}", step.name()));
            settled = true;
        }
    }
    life.host.settle_in_the_end();
    // What is owed after the last verb's end may be what was not done.
    life.note_killed(Step::Remove);
    left::check(life.host, &life.id, &life.bundle);
    if let (Some(crash), Some(_)) = (&life.crash, &following) {
        life.host.count(None, crash.points().len());
    }
    drop(following);
    life.killed.map(|(step, what)| format!("{} killed before {what}", step.name()))
}

impl Life<'_> {
    fn is_wrappers(&self) -> bool {
        matches!(self.point.victim, Victim::Wrapper | Victim::WrapperAndNrid | Victim::Runtime)
    }

    /// Where it is `nrid`, its whole work for this life is looked at.
    fn follow(&mut self) -> Option<Following> {
        if self.is_wrappers() {
            return None;
        }
        let nrid = self.host.node.nrid().expect("it was started");
        let crash = self.point.crash(&self.host.node);
        let following = crash.follow(nrid);
        self.crash = Some(crash);
        Some(following)
    }

    /// Whether the runtime may have left what it cannot remove itself.
    pub(crate) fn is_torn(&self) -> bool {
        self.point.victim == Victim::Runtime && self.killed.is_some()
    }

    /// For what engines do in one way or another.
    pub(crate) fn odd(&self) -> bool {
        self.point.at % 2 == 1
    }

    fn step(&mut self, step: Step) {
        let mut command = self.host.node.wrapper();
        command.args(engine::arguments(self, step));
        let of_wrapper = self.is_wrappers() && self.point.step.is_none_or(|its| its == step);
        if of_wrapper {
            let crash = self.point.crash(&self.host.node);
            command = crash.of(&command);
            self.crash = Some(crash);
        }
        let ended = self.host.node.run(command);
        if let (Some(crash), true) = (&self.crash, of_wrapper) {
            self.host.count(Some(step), crash.points().len());
        }
        let now = self.note_killed(step);
        self.host.note(format!(
            "{}: {:?} {:?} {}",
            step.name(),
            ended.code,
            ended.signal,
            ended.err().trim_end()
        ));
        if ended.code != Some(0) {
            // What is killed with it may be the next one that is called.
            let now = now || (self.killed.is_some() && ended.signal == Some(9));
            let spared = now && self.point.victim == Victim::Nrid;
            self.failed(step, &ended, now, spared);
        }
        self.check(step);
    }

    /// Whether it has happened, and not been noted before.
    fn note_killed(&mut self, step: Step) -> bool {
        let killed = self.crash.as_ref().and_then(Crash::killed).filter(|_| self.killed.is_none());
        if let Some(what) = &killed {
            self.host.note(format!("KILLED before {what}"));
            self.killed = Some((step, what.clone()));
        }
        killed.is_some()
    }

    /// An engine that is told of a failure, or whose runtime was killed, cleans up and tries again.
    fn failed(&mut self, step: Step, ended: &Ended, now: bool, spared: bool) {
        if !now {
            self.host.wrong(format!(
                "{} fails without a reason: {}",
                step.name(),
                ended.err().trim_end()
            ));
        }
        if spared && let Some(why) = untold(&ended.err()) {
            self.host.wrong(format!("{} fails and {why}: {:?}", step.name(), ended.err()));
        }
        self.host.count_failed(step);
        left::document(self.host, &self.bundle);
        engine::again(self, step);
    }

    /// What a verb that was made has done.
    fn check(&mut self, step: Step) {
        let adjusted = String::from_utf8_lossy(&self.bundle.bytes()).contains("CRASH=yes");
        match step {
            Step::Create | Step::Run if !adjusted => {
                self.host.wrong("the document is not the adjusted one");
            }
            Step::Update => {
                let limit =
                    |id: &str| self.host.node.kernel_file(id, "pids", "pids.max", "pids.max").ok();
                let (own, neighbour) = (limit(&self.id), limit(&self.host.neighbour));
                if own.as_deref() != Some(PIDS) || neighbour.as_deref() != Some(NEIGHBOUR_AFTER) {
                    self.host
                        .wrong(format!("after the update there are {own:?} and {neighbour:?}"));
                }
            }
            Step::Kill => engine::ended(self),
            Step::Delete | Step::Remove if self.host.has(&self.id) => {
                self.host.wrong("deleted, and the runtime has it");
            }
            _ => {}
        }
        left::document(self.host, &self.bundle);
    }
}
