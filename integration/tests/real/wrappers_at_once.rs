//! Test of many wrappers that are called at the same time, before any `nrid` runs.

use nri_integration::*;
use std::thread;

/// Number of wrappers that are called at the same time.
const WRAPPERS: usize = 50;

#[test]
fn wrappers_called_at_once_start_one_nrid() {
    for_each_runtime("50 wrappers", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let containers: Vec<_> = (0..WRAPPERS)
            .map(|n| {
                let id = node.id(&n.to_string());
                (node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), id)
            })
            .collect();
        assert_eq!(node.nrid(), None);
        thread::scope(|scope| {
            let calls: Vec<_> = containers
                .iter()
                .map(|(bundle, id)| scope.spawn(|| node.create(bundle, id)))
                .collect();
            for call in calls {
                call.join().unwrap().success();
            }
        });
        let nrid = node.nrid().expect("the wrappers started nrid");
        assert_eq!(node.nrids(), [nrid]);
        assert_eq!(node.status().unwrap()["containers"], WRAPPERS);
        for (_, id) in &containers {
            assert_eq!(node.state(id).unwrap()["status"], "created");
            assert_eq!(node.cgroup_file(id, "pids", "pids.max", "pids.max"), "77");
            let received = journal.events(id);
            assert_eq!(
                received.iter().filter(|e| *e == "CreateContainer").count(),
                1,
                "{received:?}"
            );
        }
        thread::scope(|scope| {
            let calls: Vec<_> = containers
                .iter()
                .map(|(_, id)| scope.spawn(|| node.call(&["delete", "--force", id])))
                .collect();
            for call in calls {
                call.join().unwrap().success();
            }
        });
        assert_eq!(node.status().unwrap()["containers"], 0);
    });
}
