//! Containers that another runtime started, which `nrid` does not know: `nrictl` says so in the
//! place of its reply.

use crate::{node::Node, views::nrictl};
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// A shell that `nrictl` takes for a shim of containerd with one container.
struct Shim(Child);

impl Shim {
    fn start(node: &Node, id: &str) -> Self {
        let bundle = node.path("io.containerd.runtime.v2.task/default").join(id);
        fs::create_dir_all(&bundle).unwrap();
        fs::write(bundle.join("runtime"), "/usr/bin/crun").unwrap();
        let program = node.path("containerd-shim-runc-v2");
        // A copy of another process, or else executing it may fail (ETXTBSY).
        assert!(Command::new("cp").arg("/bin/sh").arg(&program).status().unwrap().success());
        let mut command = Command::new(program);
        command.args(["-c", "sleep 60 & echo $! >init.pid; echo ready; read line; kill $!"]);
        command.current_dir(bundle).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        Self(child)
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // The end of its input ends the script, which ends its child.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn a_container_of_another_runtime_is_named_with_it() {
    let node = Node::new("");
    let nrid = node.start();
    let id = format!("other-{}", nrid.id());
    let shim = Shim::start(&node, &id);
    let text = format!("{id} runs under /usr/bin/crun, without nri-container-runtime");
    for subcommand in ["inspect", "stats", "explain"] {
        let output = nrictl(&node, &[subcommand, &id]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.starts_with(&format!("nrictl: {text}")), "{subcommand}: {error}");
        assert_eq!(output.status.code(), Some(1), "{subcommand}");
    }
    let output = nrictl(&node, &["verify", &id, "nosuch"]);
    let verified = String::from_utf8(output.stdout).unwrap();
    assert!(verified.contains(&format!("not verified: {text}")), "{verified}");
    assert!(verified.contains("nosuch\n  not verified: no such container\n"), "{verified}");
    assert_eq!(output.status.code(), Some(4));
    drop(shim);
    let output = nrictl(&node, &["inspect", &id]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("no such container or pod"), "{error}");
    node.stop();
}
