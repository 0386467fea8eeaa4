//! The life of a container, one verb after the other, and once more from the same bundle. Something
//! is killed in the middle of it.

use crate::{
    engine,
    host::{Host, NEIGHBOUR_AFTER, PIDS},
    leftovers,
    life_cycle::LifeCycle,
    point::{Group, Point, Victim},
    starting,
    step::Step,
};
use nri_integration::{Crash, Ended, Following, message_defect};
use std::collections::BTreeMap;

/// Lives, or starts, with this point in it; none: it was not reached. Else what was not done.
pub(crate) fn live(host: &mut Host, point: &Point) -> Option<String> {
    match point.victim {
        Victim::Starting => starting::start(host, point),
        _ => life_cycle(host, point),
    }
}

/// How many points each group has, by lives in which nothing is killed.
pub(crate) fn count(host: &mut Host) -> BTreeMap<Group, usize> {
    let mut counts = BTreeMap::new();
    let alike: [&[Victim]; 3] = [
        &[Victim::Nrid, Victim::NridAndWrapper],
        &[Victim::Wrapper, Victim::WrapperAndNrid],
        &[Victim::Runtime],
    ];
    for victims in alike {
        live(host, &Point { victim: victims[0], step: None, at: 0 });
        let counted = host.take_counted();
        for victim in victims {
            counts.extend(counted.iter().map(|(step, n)| ((*victim, *step), *n)));
        }
    }
    live(host, &Point { victim: Victim::Starting, step: None, at: 0 });
    counts.extend(host.take_counted().into_iter().map(|(step, n)| ((Victim::Starting, step), n)));
    counts
}

/// Lives; returns what was not done, if it came to that.
fn life_cycle(host: &mut Host, point: &Point) -> Option<String> {
    let (id, bundle) = host.next_bundle();
    let mut life = LifeCycle { host, id, bundle, point, crash: None, killed: None };
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
    leftovers::check(life.host, &life.id, &life.bundle);
    if let (Some(crash), Some(_)) = (&life.crash, &following) {
        life.host.count(None, crash.points().len());
    }
    drop(following);
    life.killed.map(|(step, what)| format!("{} killed before {what}", step.name()))
}

impl LifeCycle<'_> {
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
        if spared && let Some(why) = message_defect(&ended.err()) {
            self.host.wrong(format!("{} fails and {why}: {:?}", step.name(), ended.err()));
        }
        self.host.count_failed(step);
        leftovers::document(self.host, &self.bundle);
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
        leftovers::document(self.host, &self.bundle);
    }
}
