//! Test that the programs of two releases work together: the wrapper, the hook and `nrictl` are
//! replaced while `nrid` of the previous release runs, and then its file.

use super::{
    fleet::{Fleet, MEMORY, Member},
    for_each_takeover,
};
use nri_integration::*;

/// Memory limit of the second update.
const OTHER_MEMORY: &str = "50331648";

#[test]
fn wrapper_hook_and_nrictl_work_with_nrid_of_the_other_release() {
    for_each_takeover("mixed programs", |runtime, from, to| {
        let fleet = Fleet::new(runtime, from);
        let node = &fleet.node;
        node.ctl(&["start"]).success();
        let nrid = node.nrid();
        node.upgrade_callers(&to.dir);
        let journal = Journal::new(&fleet.session());
        let created = fleet.run("created", None);
        let ran = fleet.bundle("ran", None);
        let dir = ran.bundle.dir().to_str().unwrap();
        node.call(&["run", "--detach", "--bundle", dir, &ran.id]).success();
        let check = |container: &Member, memory| {
            fleet.check_exec(&container.id);
            fleet.check_update(&container.id, memory);
        };
        for container in [&created, &ran] {
            journal.wait_for("PostStartContainer", &container.id);
            check(container, MEMORY);
        }
        node.ctl(&["verify"]).success();
        node.ctl(&["reload"]).success();

        // The file of nrid comes last: the next caller has it restart, in its process.
        let before = node.status().expect("nrid runs")["version"].clone();
        node.upgrade(&to.dir);
        let restarted = fleet.run("restarted", None);
        assert_eq!(node.nrid(), nrid, "another nrid runs");
        assert_ne!(node.status().expect("nrid runs")["version"], before, "nrid has not restarted");
        Journal::new(&fleet.session()).wait_for("PostStartContainer", &restarted.id);
        for container in [&created, &ran, &restarted] {
            check(container, OTHER_MEMORY);
            fleet.remove(container);
        }
        fleet.check_nothing_left();
        node.ctl(&["stop"]).success();
    });
}
