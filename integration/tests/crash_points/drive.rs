//! Runs a life cycle with a crash point: a container made by `create` and then, from the same
//! bundle, a container made by `run`.

use crate::{
    engine,
    host::{Host, MEMORY_AFTER, NEIGHBOR_AFTER, PIDS},
    leftovers,
    life_cycle::LifeCycle,
    point::{Group, Point, Victim},
    starting,
    step::Step,
};
use nri_integration::{Crash, Ended, TracedProcess, message_defect};
use std::collections::BTreeMap;

/// Runs a life cycle or starts `nrid`, with this crash point. Returns the change that the crash
/// prevented; `None` if the point was not reached.
pub(crate) fn run(host: &mut Host, point: &Point) -> Option<String> {
    match point.victim {
        Victim::Starting => starting::start(host, point),
        _ => life_cycle(host, point),
    }
}

/// Counts the points of each group in life cycles without a crash.
pub(crate) fn count(host: &mut Host) -> BTreeMap<Group, usize> {
    let mut counts = BTreeMap::new();
    // The victims of each list have the same crash points, so one count is valid for all of them.
    let victims_with_equal_points: [&[Victim]; 3] = [
        &[Victim::Nrid, Victim::NridAndWrapper],
        &[Victim::Wrapper, Victim::WrapperAndNrid],
        &[Victim::Runtime],
    ];
    for victims in victims_with_equal_points {
        run(host, &Point { victim: victims[0], step: None, at: 0 });
        let counted = host.take_counted();
        for victim in victims {
            counts.extend(counted.iter().map(|(step, n)| ((*victim, *step), *n)));
        }
    }
    run(host, &Point { victim: Victim::Starting, step: None, at: 0 });
    counts.extend(host.take_counted().into_iter().map(|(step, n)| ((Victim::Starting, step), n)));
    counts
}

/// Runs a life cycle. Returns the change that the crash prevented; `None` if the point was not
/// reached.
fn life_cycle(host: &mut Host, point: &Point) -> Option<String> {
    let (id, bundle) = host.next_bundle();
    let mut life = LifeCycle { host, id, bundle, point, crash: None, killed: None };
    life.host.set_neighbor_limits();
    let traced_nrid = life.trace_nrid();
    let mut is_checked = false;
    for step in Step::ALL {
        let crashed_earlier = life.killed.is_some();
        life.step(step);
        if crashed_earlier && !is_checked && step.starts_nrid() {
            life.host.wait_until_all_agree(&format!("after {}", step.name()));
            is_checked = true;
        }
    }
    life.host.wait_until_all_agree_after_last_verb();
    // The crash may have prevented work that was pending when the last verb returned.
    life.note_killed(Step::Remove);
    leftovers::check(life.host, &life.id, &life.bundle);
    if let (Some(crash), Some(_)) = (&life.crash, &traced_nrid) {
        life.host.count(None, crash.points().len());
    }
    drop(traced_nrid);
    life.killed.map(|(step, change)| format!("{} killed before {change}", step.name()))
}

impl LifeCycle<'_> {
    /// Traces `nrid` during the whole life cycle, unless the wrapper is traced.
    fn trace_nrid(&mut self) -> Option<TracedProcess> {
        if self.traces_wrapper() {
            return None;
        }
        let nrid = self.host.node.nrid().expect("nrid runs");
        let crash = self.point.crash(&self.host.node);
        let traced_nrid = crash.trace(nrid);
        self.crash = Some(crash);
        Some(traced_nrid)
    }

    /// Calls a verb, as an engine does: a failed verb is retried. Then checks its effect.
    fn step(&mut self, step: Step) {
        let mut command = self.host.node.wrapper();
        command.args(engine::arguments(self, step));
        let is_traced = self.traces_wrapper() && self.point.step.is_none_or(|other| other == step);
        if is_traced {
            let crash = self.point.crash(&self.host.node);
            command = crash.traced_command(&command);
            self.crash = Some(crash);
        }
        let ended = self.host.node.run(command);
        if let (Some(crash), true) = (&self.crash, is_traced) {
            self.host.count(Some(step), crash.points().len());
        }
        let killed_now = self.note_killed(step);
        self.host.note(format!(
            "{}: {:?} {:?} {}",
            step.name(),
            ended.code,
            ended.signal,
            ended.err().trim_end()
        ));
        if ended.code != Some(0) {
            // With the victim `nrid+wrapper`, nrid may be killed after a verb has returned; then
            // the wrapper of the next verb is killed with it.
            let killed_now = killed_now || (self.killed.is_some() && ended.signal == Some(9));
            let only_nrid = killed_now && self.point.victim == Victim::Nrid;
            self.clean_up_and_retry(step, &ended, killed_now, only_nrid);
        }
        self.check(step);
    }

    /// Records the crash if it has happened and is not recorded yet. Returns whether this call
    /// recorded it.
    fn note_killed(&mut self, step: Step) -> bool {
        let killed =
            self.crash.as_ref().and_then(Crash::killed_before).filter(|_| self.killed.is_none());
        if let Some(change) = &killed {
            self.host.note(format!("KILLED before {change}"));
            self.killed = Some((step, change.clone()));
        }
        killed.is_some()
    }

    /// Cleans up after a failed verb and calls it again, as an engine does.
    fn clean_up_and_retry(&mut self, step: Step, ended: &Ended, killed_now: bool, only_nrid: bool) {
        if !killed_now {
            self.host.report_defect(format!(
                "{} failed without a crash: {}",
                step.name(),
                ended.err().trim_end()
            ));
        }
        // A wrapper that was not killed must report its failure.
        if only_nrid && let Some(defect) = message_defect(&ended.err()) {
            self.host.report_defect(format!(
                "{} failed with the message {:?}: {defect}",
                step.name(),
                ended.err()
            ));
        }
        self.host.count_retried(step);
        leftovers::check_bundle(self.host, &self.bundle);
        engine::retry(self, step);
    }

    /// Checks the effect of a verb that succeeded.
    fn check(&mut self, step: Step) {
        let is_adjusted = leftovers::is_adjusted(self.host, &self.id);
        match step {
            Step::Create | Step::Run if !is_adjusted => {
                self.host.report_defect("the runtime got no adjusted config.json");
            }
            Step::Create | Step::Run => self.host.check_neighbor_memory(MEMORY_AFTER),
            Step::Update => {
                let limit = |id: &str| {
                    self.host.node.try_cgroup_file(id, "pids", "pids.max", "pids.max").ok()
                };
                let (own, neighbor) = (limit(&self.id), limit(&self.host.neighbor));
                if own.as_deref() != Some(PIDS) || neighbor.as_deref() != Some(NEIGHBOR_AFTER) {
                    self.host.report_defect(format!(
                        "after the update, the pids limit of the container is {own:?} instead of \
                         {PIDS}, that of the neighbor {neighbor:?} instead of {NEIGHBOR_AFTER}"
                    ));
                }
            }
            Step::Kill => engine::wait_for_end(self),
            Step::Delete | Step::Remove if self.host.runtime_has(&self.id) => {
                self.host.report_defect("the runtime still has the deleted container");
            }
            _ => {}
        }
        leftovers::check_bundle(self.host, &self.bundle);
    }
}
