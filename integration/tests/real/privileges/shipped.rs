//! Tests of the shipped plugins with the privileges of a new installation: what containers have of
//! them.

use super::*;
use std::{
    os::unix::fs::symlink,
    process::{Child, Command, Stdio},
};

/// Returns a node with the policies of a new installation.
fn node(runtime: &Runtime) -> Node {
    let node = Node::new(runtime);
    configure(&node, "");
    node
}

/// Installs a shipped plugin, which `nrid` launches with these arguments.
fn install(node: &Node, plugin: &str, arguments: &str) {
    let program = program_dir().join(format!("nri-{plugin}"));
    assert!(program.is_file(), "{} is missing: build the workspace", program.display());
    let installed = node.path("plugins").join(format!("10-{plugin}"));
    match arguments {
        "" => symlink(program, installed).unwrap(),
        _ => {
            let script = format!("#!/bin/sh\nexec '{}' {arguments}\n", program.display());
            write_program(&installed, &script);
        }
    }
}

/// Runs a shell script in a container with these annotations, to its end.
fn run(node: &Node, id: &str, annotations: &[(&str, &str)], script: &str) -> Ended {
    let mut bundle = node.bundle(id).arguments(&["/bin/sh", "-c", script]);
    for (key, value) in annotations {
        bundle = bundle.annotation(&format!("{key}={value}"));
    }
    let bundle = bundle.make();
    let mut command = node.wrapper();
    command.arg("run").arg("--bundle").arg(bundle.dir()).arg(id);
    node.run(command)
}

#[test]
fn ulimit_adjuster_sets_limits() {
    for_each_runtime("ulimit-adjuster", |runtime| {
        let node = node(runtime);
        install(&node, "ulimit-adjuster", "");
        let id = node.id("c");
        let key = format!("ulimits.noderesource.dev/container.{id}");
        let limits = "[{type: RLIMIT_NOFILE, soft: 77, hard: 99}, {type: core, hard: 1024}]";
        let script = "ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc";
        let limited = run(&node, &id, &[(&key, limits)], script).success().out();
        // The core limit is in blocks of 512 bytes.
        assert_eq!(limited.split_whitespace().collect::<Vec<_>>(), ["77", "99", "0", "2"]);

        let refused = run(&node, &id, &[(&key, "[{type: colour, hard: 1}]")], script).refusal();
        assert!(refused.contains("10-ulimit-adjuster") && refused.contains("colour"), "{refused}");
        let others = run(&node, &node.id("d"), &[(&key, limits)], "ulimit -Hn").success().out();
        assert_ne!(others.trim(), "99");
    });
}

#[test]
fn writable_cgroups_lets_a_container_make_cgroups() {
    // With cgroup v1, each hierarchy is a mount of its own, with the options of this mount.
    let script = "for dir in /sys/fs/cgroup /sys/fs/cgroup/pids; do\n\
                  [ -e $dir/cgroup.procs ] || continue\n\
                  mkdir $dir/inner && rmdir $dir/inner && echo made\n\
                  exit\n\
                  done";
    for_each_runtime("writable-cgroups", |runtime| {
        for (options, value, expected) in [
            ("rw,nsdelegate", "true", "made"),
            ("rw,nsdelegate", "false", ""),
            ("rw", "true", ""), // not safe
        ] {
            let node = node(runtime);
            // This machine need not have cgroup v2, so the file says what a host with it has.
            let mounts = node.path("mountinfo");
            let line = format!("36 35 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 {options}\n");
            fs::write(&mounts, line).unwrap();
            install(&node, "writable-cgroups", &format!("-host-mount-file={}", mounts.display()));
            let annotation = ("writable-cgroups.noderesource.dev", value);
            let ended = run(&node, &node.id("c"), &[annotation], script);
            assert_eq!(ended.out().trim(), expected, "{options} {value}: {}", ended.err());
        }
    });
}

#[test]
fn loggers_name_the_container_and_its_pod() {
    for_each_runtime("loggers", |runtime| {
        let node = node(runtime);
        install(&node, "logger", "");
        install(&node, "network-logger", "");
        let config = "events: [CreateContainer]\nsetEnv: LOGGER\n";
        fs::write(node.path("conf.d").join("10-logger.conf"), config).unwrap();
        let id = node.id("c");
        let printed = run(&node, &id, &[], "echo $LOGGER").success().out();
        assert!(printed.starts_with("logger-pid-"), "{printed}");
        for text in [
            format!("CreateContainer:    name: {id}"),
            "Started pod".to_owned(),
            "Removed pod".to_owned(),
        ] {
            wait_until(format_args!("{text}"), || node.log().contains(&text).then_some(()));
        }
        assert!(!node.log().contains("StopContainer:"), "{}", node.log());
    });
}

/// A service. Dropping it kills its process.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn differ_logs_what_a_plugin_between_its_indices_changes() {
    for_each_runtime("differ", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        node.launch("60-adjust", &Program::Adjust, "[create]\nenv = { set = { C = 'd' } }\n");
        node.ctl(&["start"]).success();
        let log = node.path("differ.log");
        let mut command = Command::new(program_dir().join("nri-differ"));
        command.arg("-indices").arg("00,50,99").arg("-log-file").arg(&log);
        command.arg("-socket-path").arg(node.state_dir().join("nri.sock"));
        let _service = Service(command.stdin(Stdio::null()).spawn().unwrap());
        wait_until("three plugins", || {
            let status = node.status()?;
            let plugins = status["plugins"].as_array()?;
            let is_active =
                |name: &str| plugins.iter().any(|p| p["name"] == name && p["state"] == "active");
            ["00-differ", "50-differ", "99-differ"].into_iter().all(is_active).then_some(())
        });
        run(&node, &node.id("c"), &[], "true").success();
        for text in [
            "[50] CreateContainer: pod: <no changes>",
            "[50] CreateContainer: container: create: [env ",
            "-> To: A=b",
            "[99] CreateContainer: container: create: [env ",
            "-> To: C=d",
            "[99] StopContainer: container: <no changes>",
        ] {
            let read = || fs::read_to_string(&log).unwrap_or_default();
            wait_until(format_args!("{text}"), || read().contains(text).then_some(()));
        }
    });
}
