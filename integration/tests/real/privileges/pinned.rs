//! Test of a plugin that is pinned by digest.

use super::pid_of;
use nri_integration::*;
use std::{fs, path::Path, process::Command};

/// Sets a limit by which a container shows that the plugin was asked.
const GOOD: &str = "[create.resources]\npids = 66\n";

/// Returns the digest of a file as a value of the configuration.
fn digest(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    format!("sha256:{}", text.split(' ').next().unwrap())
}

fn create(node: &Node, name: &str) -> Ended {
    let id = node.id(name);
    node.create(&node.bundle(&id).make(), &id)
}

/// Creates a container and checks that the plugin has adjusted it.
fn check_adjusted(node: &Node, name: &str) {
    create(node, name).success();
    let limit = node.cgroup_file(&node.id(name), "pids", "pids.max", "pids.max");
    assert_eq!(limit, "66", "{name}");
}

#[test]
fn a_pinned_program_runs_from_its_copy_and_another_file_refuses_creations() {
    for_each_runtime("pinned program", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-pinned", &Program::Adjust, GOOD);
        let file = node.path("plugins/10-pinned");
        fs::remove_file(&file).unwrap();
        copy_program(&Program::Adjust.path(), &file);
        let pinned = digest(&file);
        node.configure(&format!(
            "plugin = [{{ match = '10-pinned', required = true, digest = '{pinned}', \
             capabilities = [], restart_backoff = '10ms' }}]\n"
        ));
        node.ctl(&["start"]).success();
        check_adjusted(&node, "first");
        let pid = pid_of(&node, "10-pinned");
        let executed = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        assert!(executed.to_str().unwrap().starts_with("/memfd:"), "{executed:?}");
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(line.starts_with(file.to_str().unwrap().as_bytes()), "{line:?}");

        // In place: no process executes the file.
        fs::write(&file, "#!/bin/sh\nexit 7\n").unwrap();
        check_adjusted(&node, "second");
        let why = format!("has digest {}, and not {pinned} of its policy", digest(&file));
        let has_why = |text: &str| assert!(text.contains(&why), "{why:?} is not in: {text}");
        has_why(&node.ctl(&["doctor", "--json"]).out());
        has_why(&node.ctl(&["validate"]).out());
        let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        assert!(killed.unwrap().success());
        wait_until("nrid to give up the plugin", || {
            let status = node.status()?;
            (status["plugins"][0]["state"] == "closed").then_some(())
        });
        has_why(&node.status().unwrap().to_string());
        has_why(&create(&node, "third").refusal());
        has_why(&node.log());

        copy_program(&Program::Adjust.path(), &file);
        node.ctl(&["reload"]).success();
        check_adjusted(&node, "fourth");
    });
}
