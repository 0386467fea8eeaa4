//! Tests of the harness on the bare runtime: a check that fails without the wrapper proves nothing
//! about the wrapper.

use nri_integration::*;

#[test]
fn the_probe_reports_what_the_container_sees() {
    for_each_runtime("bare probe", |runtime| {
        let node = Node::new(runtime);
        let id = node.id("c");
        let bundle = node
            .bundle(&id)
            .resources(
                r#"{"memory": {"limit": 67108864},
                    "cpu": {"shares": 512, "quota": 50000, "period": 100000},
                    "pids": {"limit": 50}}"#,
            )
            .env("A=b c")
            .annotation("example.org/a=b")
            .make();
        let mut run = runtime.command(&node.root());
        run.args(["run", "--bundle"]).arg(bundle.dir()).arg(&id);
        let ended = node.run(run).success();
        // The devices are the last lines of the probe's output.
        let out = wait_until("the probe's output", || {
            let out = ended.out();
            out.contains("device./dev/zero").then_some(out)
        });
        Report::parse(&out).check(&[
            ("args.0", "/probe"),
            ("env.A", "b c"),
            ("memory.limit_in_bytes|memory.max", "67108864"),
            // cgroup v2 weights of 512 shares: the two conversions that versions of the runtimes
            // have.
            ("cpu.shares|cpu.weight", "512|20|59"),
            ("cpu.cfs_quota_us|cpu.max", "50000|50000 100000"),
            ("pids.max", "50"),
        ]);
        assert!(
            !node.root().join(&id).exists(),
            "the runtime has not deleted the container of a foreground run"
        );
    });
}

#[test]
fn a_container_outlives_the_create_call() {
    for_each_runtime("bare create", |runtime| {
        let node = Node::new(runtime);
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
        let mut create = runtime.command(&node.root());
        create.args(["create", "--bundle"]).arg(bundle.dir()).arg(&id);
        let created = node.run(create).success();
        assert_eq!(node.state(&id).unwrap()["status"], "created");
        node.bare(&["start", &id]).success();
        wait_until("the probe", || created.out().contains("ready=1").then_some(()));
        assert_eq!(node.state(&id).unwrap()["status"], "running");
        node.bare(&["kill", &id, "TERM"]).success();
        wait_until("the container to stop", || {
            (node.state(&id).unwrap()["status"] == "stopped").then_some(())
        });
        node.bare(&["delete", &id]).success();
        assert!(node.state(&id).is_none());
        assert_eq!(cgroups_of(&id), Vec::<std::path::PathBuf>::new());
    });
}
