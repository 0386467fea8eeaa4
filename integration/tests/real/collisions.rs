//! What gets in its own or in another's way: verbs out of turn, equal ids, one bundle for several containers, an `nrid` that is killed.

use crate::life;
use nri_integration::*;

#[test]
fn a_start_out_of_turn_is_not_told() {
    for_each_runtime("start twice", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "");
        let id = node.id("c");
        node.create(&node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), &id).success();
        node.call(&["start", &id]).success();
        assert_ne!(node.call(&["start", &id]).code, Some(0), "it runs");
        node.call(&["kill", &id, "KILL"]).success();
        journal.wait_for("StopContainer", &id);
        assert_ne!(node.call(&["start", &id]).code, Some(0), "it has ended");
        node.call(&["delete", &id]).success();
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life(&[]));
    });
}
