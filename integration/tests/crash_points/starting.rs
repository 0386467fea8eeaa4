//! Kills `nrid` while it starts and detects the changes since the previous `nrid` ended: of three
//! containers, one has ended, one was deleted, and one still runs.

use crate::{
    host::{Host, PIDS},
    leftovers,
    point::Point,
};
use nri_integration::{Process, wait_until};
use rustix::process::Signal;

/// Starts `nrid` with this crash point. Returns the change that the crash prevented; `None` if the
/// point was not reached.
pub(crate) fn start(host: &mut Host, point: &Point) -> Option<String> {
    let life_cycles: Vec<_> = (0..3).map(|_| host.next_bundle()).collect();
    for (id, bundle) in &life_cycles {
        host.node.create(bundle, id).success();
        host.node.call(&["start", id]).success();
    }
    kill_nrid(host);
    let [running, ended, deleted] = [0, 1, 2].map(|n| life_cycles[n].0.as_str());
    host.node.bare(&["kill", ended, "KILL"]).success();
    wait_until("the end of the container", || (host.status(ended)? == "stopped").then_some(()));
    host.node.bare(&["delete", "--force", deleted]).success();

    let crash = point.crash(&host.node);
    let started = host.node.run(crash.traced_command(&host.node.start_command()));
    host.count(None, crash.points().len());
    host.note(format!("start: {:?} {}", started.code, started.err().trim_end()));
    let killed = crash.killed_before();
    if killed.is_none() && started.code != Some(0) {
        host.report_defect("nrid did not start, although it was not killed");
    }
    let updated = host.node.call(&["update", "--pids-limit", PIDS, running]);
    if updated.code != Some(0) {
        host.report_defect(format!("the update after the start of nrid failed: {}", updated.err()));
    }
    host.wait_until_all_agree("after an update");
    for (id, _) in &life_cycles {
        let deleted = host.node.call(&["delete", "--force", id]);
        host.note(format!("delete: {:?} {}", deleted.code, deleted.err().trim_end()));
    }
    host.wait_until_all_agree("after the deletes");
    for (id, bundle) in &life_cycles {
        leftovers::check(host, id, bundle);
    }
    killed.map(|change| format!("killed before {change}"))
}

fn kill_nrid(host: &Host) {
    let nrid: Process = host.node.nrid().expect("nrid runs");
    nrid.signal(Signal::KILL);
    wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
}
