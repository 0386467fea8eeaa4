//! Runtimes with NRI of their own, without `nrid`: the example of `nri-runtime` in Rust and the
//! example of `nri-capi` in C run real containers with plugins of the Rust SDK and of upstream's
//! stub.

mod facts;

use nri_integration::*;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
};

/// Events from the end of the container's process to the removal of its pod.
const END: [&str; 4] = ["StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"];

/// A runtime that embeds NRI.
#[derive(Debug, Clone, Copy)]
enum Embedder {
    /// `src/runtime/examples/minimal_runtime.rs`.
    Rust,
    /// `src/capi/examples/engine.c`.
    C,
}

/// A call of a runtime, which ends with its container.
struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Embedder {
    /// Returns a command of the program, which is compiled if it is one in C.
    fn command(self, node: &Node) -> Command {
        match self {
            Self::Rust => Command::new(program_dir().join("examples/minimal_runtime")),
            Self::C => compiled(node, &script("../src/capi/examples/engine.c")),
        }
    }

    /// Starts the container of a bundle.
    fn start(self, node: &Node, bundle: &Bundle, id: &str) -> Running {
        let runtime = node.path("runtime.sh");
        let bare = node.runtime().command(&node.root());
        let words = [bare.get_program()].into_iter().chain(bare.get_args());
        let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
        write_program(&runtime, &format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")));
        let (out, err) = (node.path("engine.out"), node.path("engine.err"));
        let mut command = self.command(node);
        command.arg(bundle.dir()).arg(id).arg(node.path("plugins")).arg(node.path("conf.d"));
        command.arg(socket(node)).env("RUNC", runtime);
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Running { child, out, err }
    }
}

/// Compiles a program in C with the installed library, and returns a command of it.
fn compiled(node: &Node, source: &Path) -> Command {
    let (prefix, program) = (node.path("prefix"), node.path("engine"));
    let mut install = Command::new(script("../src/capi/install.sh"));
    install.arg(program_dir()).arg(&prefix);
    run(install, &node.path("calls")).success();
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--cflags", "--libs", "nri"]);
    pkg_config.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = run(pkg_config, &node.path("calls")).success().out();
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-o"]).arg(&program);
    cc.arg(source).args(flags.split_whitespace());
    run(cc, &node.path("calls")).success();
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", prefix.join("lib"));
    command
}

impl Running {
    fn wait(&mut self) -> ExitStatus {
        wait_until("the end of the runtime", || self.child.try_wait().unwrap())
    }

    fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    fn err(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The socket that [`Node::connect`] connects plugins to.
fn socket(node: &Node) -> PathBuf {
    node.state_dir().join("nri.sock")
}

/// A configuration of the Go plugin that sets a variable, and replies as `rest` says.
fn go(variable: &str, rest: &Value) -> String {
    let mut rule = json!({"adjust": {"env": [{"key": variable, "value": "go"}]}});
    rule["adjust"].as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({"rules": [rule]}).to_string()
}

/// Runs a test with each embedder on each runtime.
fn for_each(name: &str, test: impl Fn(Embedder, &Node, &Program)) {
    let Some(go_plugin) = go_plugin(name) else { return };
    for_each_runtime(name, |runtime| {
        for embedder in [Embedder::Rust, Embedder::C] {
            test(embedder, &Node::new(runtime), &go_plugin);
        }
    });
}

#[test]
fn plugins_adjust_update_and_follow_a_container() {
    for_each("embedding: life", |embedder, node, go_plugin| {
        let adjust = "[create.env.set]\nRUST = \"adjust\"\n";
        let rust = node.launch("10-adjust", &Program::Adjust, adjust);
        let limits = json!({"linux": {"resources": {"pids": {"limit": 66}}}});
        let journal = node.launch("20-go", go_plugin, &go("GO", &limits));
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
        let mut running = embedder.start(node, &bundle, &id);
        wait_until(format_args!("the probe of {embedder:?}: {}", running.err()), || {
            running.out().contains("ready=1").then_some(())
        });
        Report::parse(&running.out()).check(&[
            ("env.RUST", "adjust"),
            ("env.GO", "go"),
            ("pids.max", "66"),
        ]);
        let started = journal.wait_for("PostStartContainer", &id);
        assert!(started["pid"].as_u64().is_some_and(|pid| pid > 1), "{started}");

        let mut external = node.connect("30-external", go_plugin, "{}");
        let synchronized = external.journal.wait_for_plugin_event("Synchronize");
        assert_eq!(synchronized["containers"], json!([id]));
        assert_eq!(synchronized["pods"], json!([id]));
        let update = |id: &str| {
            let resources = json!({"pids": {"limit": 42}});
            json!({"containerId": id, "linux": {"resources": resources}})
        };
        external.send(&json!({"update": [update(&id), update("unknown")]}));
        let done = external.journal.wait_for_plugin_event("UpdateContainers");
        assert_eq!(done["failed"], json!(["unknown"]), "{done}");
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "42");

        let mut kill = node.runtime().command(&node.root());
        kill.args(["kill", &id, "KILL"]);
        run(kill, &node.path("calls")).success();
        assert_eq!(running.wait().code(), Some(137), "{}", running.err());
        for journal in [&rust, &journal] {
            let expected = [&TO_START[..], &END].concat();
            assert_eq!(journal.events(&id), expected, "{embedder:?}");
        }
        assert_eq!(journal.wait_for("StopContainer", &id)["container"]["exitCode"], 137);
        assert!(!socket(node).exists(), "the socket is left");
        assert!(!node.root().join(&id).exists(), "the container is left");
    });
}

/// Checks that a creation fails with an error that contains all of `expected`, that nothing is left
/// of the container, and that the first plugin was notified of its end.
fn refused(embedder: Embedder, node: &Node, first: &Journal, expected: &[&str]) {
    let id = node.id("c");
    let bundle = node.bundle(&id).make();
    let before = bundle.bytes();
    let mut running = embedder.start(node, &bundle, &id);
    assert!(!running.wait().success(), "{embedder:?} ran the container");
    for part in expected {
        assert!(running.err().contains(part), "{embedder:?}: {part:?} is not in {}", running.err());
    }
    assert_eq!(bundle.bytes(), before, "config.json was changed");
    assert!(!node.root().join(&id).exists(), "the container was created");
    let events = first.events(&id);
    assert!(events.iter().any(|event| event == "CreateContainer"), "{events:?}");
    assert_eq!(events[events.len() - END.len()..], END, "{events:?}");
}

#[test]
fn plugins_that_contradict_one_another_refuse_a_container() {
    for_each("embedding: conflict", |embedder, node, go_plugin| {
        let first = node.launch("10-first", go_plugin, &go("SAME", &json!({})));
        node.launch("20-second", go_plugin, &go("SAME", &json!({})));
        refused(embedder, node, &first, &["10-first", "20-second", "SAME"]);
    });
}

#[test]
fn an_adjustment_that_cannot_be_applied_names_plugin_and_field() {
    for_each("embedding: unknown device", |embedder, node, go_plugin| {
        let device = json!({"CDIDevices": [{"name": "example.org/thing=none"}]});
        let first = node.launch("10-first", go_plugin, &go("A", &device));
        refused(embedder, node, &first, &["by plugin 10-first", "cdi_devices", "thing=none"]);
    });
}

#[test]
fn a_plugin_that_refuses_is_named() {
    for_each("embedding: refusal", |embedder, node, go_plugin| {
        let first = node.launch("10-first", go_plugin, &go("A", &json!({})));
        let refuse = json!({"rules": [{"error": "no containers today"}]}).to_string();
        node.launch("20-second", go_plugin, &refuse);
        refused(embedder, node, &first, &["20-second", "no containers today"]);
    });
}
