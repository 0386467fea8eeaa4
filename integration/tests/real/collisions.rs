//! Tests of conflicting calls: verbs in the wrong state, a `run` in progress, one bundle for
//! several containers, a deletion while no `nrid` runs.

use nri_integration::*;

#[test]
fn plugins_are_not_notified_of_a_start_that_the_runtime_refuses() {
    for_each_runtime("start twice", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "");
        let id = node.id("c");
        node.create(&node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), &id).success();
        node.call(&["start", &id]).success();
        assert_ne!(
            node.call(&["start", &id]).code,
            Some(0),
            "the start of a running container succeeded"
        );
        node.call(&["kill", &id, "KILL"]).success();
        journal.wait_for("StopContainer", &id);
        assert_ne!(
            node.call(&["start", &id]).code,
            Some(0),
            "the start of a stopped container succeeded"
        );
        node.call(&["delete", &id]).success();
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]));
    });
}

/// After `nrid` has replied to `run` and before the runtime has written its first state file, the
/// runtime's `state` does not know the container. Other verbs must not conclude that the container
/// has ended.
#[test]
fn a_run_in_progress_is_not_ended_by_other_verbs() {
    for_each_runtime("verbs during a run", |runtime| {
        let node = Node::new(runtime);
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create.env]\nset = { A = \"b\" }\n");
        let slow = node.path("slow");
        let (working, release) = (node.path("working"), node.path("release"));
        let text = format!(
            "#!/bin/sh\ncase \" $* \" in *' run '*) : > '{}'; while [ ! -e '{}' ]; do sleep 0.02; \
                done ;; esac\nexec '{}' \"$@\"\n",
            working.display(),
            release.display(),
            runtime.path.display()
        );
        write_program(&slow, &text);
        let slow = Runtime { name: runtime.name, path: slow };
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let original = bundle.bytes();
        let run = |runtime: &Runtime| {
            let mut command = node.wrapper_of(runtime);
            command.args(["run", "--detach", "--bundle"]).arg(bundle.dir()).arg(&id);
            node.run(command)
        };
        std::thread::scope(|scope| {
            let first = scope.spawn(|| run(&slow));
            wait_until("the call of the runtime", || working.exists().then_some(()));
            for verb in [&["start"][..], &["delete"], &["delete", "--force"]] {
                let call = [verb, &[id.as_str()]].concat();
                assert_eq!(node.call(&call).code, node.bare(&call).code, "{verb:?}");
            }
            let second = scope.spawn(|| run(runtime));
            // The second run most likely arrives during this pause; the test holds in any case.
            std::thread::sleep(std::time::Duration::from_millis(100));
            std::fs::write(&release, "").unwrap();
            first.join().unwrap().success();
            assert_ne!(
                second.join().unwrap().code,
                Some(0),
                "a second run with the same id succeeded"
            );
        });
        assert_eq!(node.state(&id).unwrap()["status"], "running");
        assert!(node.adjusted(&id).to_string().contains("A=b"));
        node.call(&["delete", "--force", &id]).success();
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]));
        assert_eq!(bundle.bytes(), original);
    });
}

#[test]
fn several_containers_can_share_a_bundle() {
    for_each_runtime("shared bundle", |runtime| {
        let node = Node::new(runtime);
        // Each plugin adjusts one container, whose id ends with a digit N, to oom_score_adj 1N.
        let config = |id: &str| {
            format!("[filter]\nname = {id:?}\n[create]\noom_score_adj = 1{}\n", &id[id.len() - 1..])
        };
        let ids: Vec<_> = (0..4).map(|n| node.id(&n.to_string())).collect();
        for (n, id) in ids.iter().enumerate() {
            node.launch(&format!("1{n}-adjust"), &Program::Adjust, &config(id));
        }
        let bundle = node.bundle(&node.id("b")).arguments(&["/bin/sleep", "1000"]).make();
        // With a cgroup path, all containers of the bundle would be in one cgroup.
        bundle.edit(|config| drop(config["linux"].as_object_mut().unwrap().remove("cgroupsPath")));
        let original = bundle.bytes();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for id in &ids {
                    scope.spawn(|| node.create(&bundle, id).success());
                }
            });
            for (n, id) in ids.iter().enumerate() {
                let pid = &node.state(id).unwrap()["pid"];
                let file = format!("/proc/{pid}/oom_score_adj");
                assert_eq!(std::fs::read_to_string(file).unwrap().trim(), format!("1{n}"), "{id}");
            }
            std::thread::scope(|scope| {
                for id in &ids {
                    scope.spawn(|| node.call(&["delete", "--force", id]).success());
                }
            });
            assert_eq!(bundle.bytes(), original);
        }
    });
}

#[test]
fn a_container_deleted_while_no_nrid_runs_leaves_no_record_and_no_bundle() {
    for_each_runtime("deleted without nrid", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "[create.env]\nset = { A = \"b\" }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        let dirs = ["containers", "pods", "exec", "bundles"];
        let files = |kind: &str| std::fs::read_dir(node.state_dir().join(kind)).unwrap().count();
        assert_eq!(dirs.map(files), [1; 4]);
        node.ctl(&["stop"]).success();
        node.call(&["delete", "--force", &id]).success();
        node.ctl(&["start"]).success();
        assert_eq!(dirs.map(files), [0; 4]);
    });
}

#[test]
fn a_run_that_fails_at_once_leaves_no_bundle() {
    for_each_runtime("failed run", |runtime| {
        let node = Node::new(runtime);
        // The runtime fails when it sets the invalid list of CPUs.
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create.resources]\ncpus = \"zero\"\n");
        for n in 0..5 {
            let id = node.id(&n.to_string());
            let bundle = node.bundle(&id).make();
            let mut run = node.wrapper();
            run.args(["run", "--bundle"]).arg(bundle.dir()).arg(&id);
            assert_ne!(node.run(run).code, Some(0), "a run with invalid CPUs succeeded");
            journal.wait_for("RemovePodSandbox", &id);
            wait_until("the end of the bundle", || node.own_bundle(&id).is_none().then_some(()));
        }
    });
}

#[test]
fn an_update_whose_resources_are_null_changes_nothing() {
    for_each_runtime("null update", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let id = node.id("c");
        node.create(&node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), &id).success();
        let file = node.path("null.json");
        std::fs::write(&file, "null").unwrap();
        node.call(&["update", "--resources", file.to_str().unwrap(), &id]).success();
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "77");
    });
}
