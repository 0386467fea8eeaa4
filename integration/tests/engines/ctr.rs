//! containerd, called by `ctr`.

use nri_integration::{engines::*, *};

const IMAGE: &str = "localhost/busybox:local";

/// `ctr run`, with the wrapper.
fn run(containerd: &Containerd, options: &[&str], id: &str, command: &[&str]) -> Ended {
    let launcher = containerd.launcher();
    let runtime = ["run", "--runc-binary", launcher.to_str().unwrap(), "--net-host"];
    containerd.ctr(&[&runtime, options, &[IMAGE, id], command].concat())
}

#[test]
fn run_and_remove() {
    for_each_suite("ctr run --rm", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal =
            containerd.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let id = containerd.id("c");
        let ended = run(&containerd, &["--rm"], &id, &["/bin/sh", "-c", "echo A=$A; exit 7"]);
        assert_eq!((ended.code, ended.out().trim()), (Some(7), "A=b"), "{}", ended.err());
        journal.wait_for("RemovePodSandbox", &id);
    });
}
