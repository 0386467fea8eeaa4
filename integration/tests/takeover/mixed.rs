//! Test that the programs of two releases work together: the wrapper, the hook and `nrictl` are
//! replaced while `nrid` of the previous release runs.

use super::{
    fleet::{Fleet, MEMORY},
    for_each_takeover,
};
use nri_integration::*;

#[test]
fn wrapper_hook_and_nrictl_work_with_nrid_of_the_other_release() {
    for_each_takeover("mixed programs", |runtime, from, to| {
        let fleet = Fleet::new(runtime, from);
        let node = &fleet.node;
        node.ctl(&["start"]).success();
        let nrid = node.nrid();
        node.upgrade(&to.dir);
        let journal = Journal::new(&fleet.session());
        let created = fleet.run("created", None);
        let ran = fleet.bundle("ran", None);
        let dir = ran.bundle.dir().to_str().unwrap();
        node.call(&["run", "--detach", "--bundle", dir, &ran.id]).success();
        for container in [&created, &ran] {
            journal.wait_for("PostStartContainer", &container.id);
            fleet.check_exec(&container.id);
            fleet.check_update(&container.id, MEMORY);
        }
        node.ctl(&["verify"]).success();
        node.ctl(&["reload"]).success();
        for container in [&created, &ran] {
            fleet.remove(container);
        }
        fleet.check_nothing_left();
        assert_eq!(node.nrid(), nrid, "another nrid runs");
        node.ctl(&["stop"]).success();
    });
}
