//! What happens while no `nrid` runs is known to the next one, and to the plugins that it has.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::json;

/// Ends `nrid` without a word.
fn kill_nrid(node: &Node) {
    let nrid = node.nrid().unwrap();
    nrid.signal(Signal::KILL);
    wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
}

#[test]
fn a_container_that_ended_takes_its_pod_with_it() {
    let Some(go) = go("meanwhile") else { return };
    for_each_runtime("meanwhile", |runtime| {
        let node = Node::new(runtime);
        let (gone, stays) = (node.id("gone"), node.id("stays"));
        for id in [&gone, &stays] {
            let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
            node.create(&bundle, id).success();
            node.call(&["start", id]).success();
        }
        kill_nrid(&node);
        node.bare(&["kill", &gone, "KILL"]).success();
        wait_until("its end", || (node.state(&gone)?["status"] == "stopped").then_some(()));
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-late", &go, "{}");
        let synchronized = plugin.journal.wait_for_own("Synchronize");
        assert_eq!(synchronized["containers"], json!([stays]));
        assert_eq!(synchronized["pods"], json!([stays]));
        node.call(&["delete", &gone]).success();
        plugin.journal.wait_for("RemovePodSandbox", &gone);
        assert_eq!(plugin.journal.events(&gone), ["RemoveContainer", "RemovePodSandbox"]);
    });
}

#[test]
fn a_container_that_is_deleted_without_a_word_is_noticed() {
    let Some(go) = go("deleted without a word") else { return };
    for_each_runtime("deleted without a word", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        node.ctl(&["start"]).success();
        let plugin = node.connect("20-hears", &go, "{}");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let original = bundle.bytes();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        node.bare(&["delete", "--force", &id]).success();
        for journal in [&journal, &plugin.journal] {
            journal.wait_for("RemovePodSandbox", &id);
        }
        assert_eq!(plugin.journal.events(&id), super::life(&[]));
        assert_eq!(bundle.bytes(), original);
        wait_until("nothing known", || (node.status()?["containers"] == 0).then_some(()));
    });
}
