//! Tests of refusals of bad input: exit code 1, one line on stderr that names the path, id or
//! field, and no change of the host.

use nri_integration::*;
use std::{fs, process::Command};

/// A node with a plugin that adjusts every container, and a bundle.
struct Case {
    node: Node,
    bundle: Bundle,
    id: String,
    journal: Journal,
}

impl Case {
    fn new(runtime: &Runtime) -> Self {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        Self { node, bundle, id, journal }
    }

    fn create(&self) -> Command {
        let mut command = self.node.wrapper();
        command.args(["create", "--bundle"]).arg(self.bundle.dir()).arg(&self.id);
        command
    }

    /// Checks that a call is refused in a line that contains all texts of `named`, changes no
    /// bundle, creates no cgroup and no container, and causes no event.
    fn check(&self, command: Command, named: &[&str]) {
        let before = digest_tree(self.bundle.dir());
        let shown = format!("{command:?}");
        let line = self.node.run(command).refusal();
        for word in named {
            assert!(line.contains(word), "{shown}: {word:?} is not in: {line}");
        }
        assert_eq!(digest_tree(self.bundle.dir()), before, "{shown}: the bundle has changed");
        assert_eq!(cgroups_of(self.node.prefix()), Vec::<std::path::PathBuf>::new(), "{shown}");
        assert!(self.node.state(&self.id).is_none(), "{shown}");
        assert_eq!(
            self.journal.entries_about(&self.id),
            Vec::<serde_json::Value>::new(),
            "{shown}"
        );
    }

    /// Checks that `nrid`, if it runs, has no record of a container or pod.
    fn check_no_record(&self) {
        if let Some(status) = self.node.status() {
            assert_eq!((&status["containers"], &status["pods"]), (&0.into(), &0.into()));
        }
    }
}

#[test]
fn a_refusal_names_what_is_wrong_in_config_json() {
    for_each_runtime("bad config.json", |runtime| {
        let case = Case::new(runtime);
        let file = case.bundle.config();
        let path = file.to_str().unwrap();
        let text = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        // The wrapper leaves this refusal to the runtime, which names the file in its own message.
        case.check(case.create(), &["config.json"]);
        for broken in ["", "{", "[]", "{\"process\": 1}", "\u{0}"] {
            fs::write(&file, broken).unwrap();
            case.check(case.create(), &[path]);
        }
        case.check_no_record();
        fs::write(&file, text).unwrap();
        case.node.run(case.create()).success();
    });
}

#[test]
fn a_refusal_names_a_missing_bundle() {
    for_each_runtime("no bundle", |runtime| {
        let case = Case::new(runtime);
        let mut command = case.node.wrapper();
        command.args(["create", "--bundle", "/nonexistent/bundle", &case.id]);
        case.check(command, &["/nonexistent/bundle"]);
        case.check_no_record();
    });
}

#[test]
fn a_refusal_names_an_invalid_container_id() {
    for_each_runtime("bad ids", |runtime| {
        let case = Case::new(runtime);
        for id in ["../x", "a/b", "..", ""] {
            let mut command = case.node.wrapper();
            command.args(["create", "--bundle"]).arg(case.bundle.dir()).arg(id);
            case.check(command, &["container id", id]);
        }
        case.check_no_record();
    });
}

#[test]
fn a_refusal_names_a_missing_runtime() {
    for_each_runtime("no runtime", |runtime| {
        let case = Case::new(runtime);
        let wrapper = case.node.wrapper();
        // Replaces the value of `--nri-runtime`.
        let mut command = Command::new(wrapper.get_program());
        for argument in wrapper.get_args() {
            command.arg(if argument == runtime.path {
                "/nonexistent/runtime".as_ref()
            } else {
                argument
            });
        }
        command.args(["create", "--bundle"]).arg(case.bundle.dir()).arg(&case.id);
        case.check(command, &["/nonexistent/runtime"]);
        assert_eq!(case.node.nrid(), None, "nrid was started");
    });
}

#[test]
fn a_refusal_names_what_is_wrong_in_the_configuration() {
    for_each_runtime("bad configuration", |runtime| {
        let case = Case::new(runtime);
        let config = case.node.config();
        let path = config.to_str().unwrap();
        let good = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("{good}\ncolour = 1\n")).unwrap();
        case.check(case.create(), &[path, "line", "colour"]);
        fs::remove_file(&config).unwrap();
        case.check(case.create(), &[path]);
        fs::create_dir(&config).unwrap();
        case.check(case.create(), &[path]);
        // Verbs without an event do not need the configuration.
        let state = case.node.call(&["state", &case.id]);
        assert!(!state.err().contains(path), "{}", state.err());
        fs::remove_dir(&config).unwrap();
        fs::write(&config, good).unwrap();
        case.node.run(case.create()).success();
    });
}

#[test]
fn a_refusal_states_why_nrid_cannot_start() {
    for_each_runtime("nrid cannot start", |runtime| {
        let case = Case::new(runtime);
        let state = case.node.state_dir();
        fs::write(&state, "in the way").unwrap();
        case.check(case.create(), &["nrid", state.to_str().unwrap()]);
        fs::remove_file(&state).unwrap();
        case.node.run(case.create()).success();
    });
}

#[test]
fn a_refusal_names_a_duplicate_container_id() {
    for_each_runtime("existing id", |runtime| {
        let case = Case::new(runtime);
        case.node.run(case.create()).success();
        case.journal.wait_for("PostCreateContainer", &case.id);
        let (before, events) = (digest_tree(case.bundle.dir()), case.journal.events(&case.id));
        let other = case.node.bundle(&case.node.id("other")).make();
        let other_before = digest_tree(other.dir());
        for bundle in [&case.bundle, &other] {
            let mut again = case.node.wrapper();
            again.args(["create", "--bundle"]).arg(bundle.dir()).arg(&case.id);
            let refused = case.node.run(again);
            assert_eq!(refused.code, Some(1));
            assert!(
                refused.err().contains("exist"),
                "stderr lacks the runtime's message: {}",
                refused.err()
            );
        }
        assert_eq!(digest_tree(case.bundle.dir()), before);
        assert_eq!(digest_tree(other.dir()), other_before);
        assert_eq!(case.node.state(&case.id).unwrap()["status"], "created");
        // Events arrive in order: an event of a refused call would precede PostStartContainer.
        case.node.call(&["start", &case.id]).success();
        case.journal.wait_for("PostStartContainer", &case.id);
        assert_eq!(
            case.journal.events(&case.id),
            [events, vec!["StartContainer".into(), "PostStartContainer".into()]].concat()
        );
    });
}

#[test]
fn a_plugin_cannot_set_an_annotation_that_is_reserved_for_facts() {
    for_each_runtime("reserved annotation", |runtime| {
        let node = Node::new(runtime);
        let config = "[create]\nannotations = { set = { 'facts.nri-container-runtime/x' = '' } }\n";
        node.launch("10-adjust", &Program::Adjust, config);
        let id = node.id("c");
        let line = node.create(&node.bundle(&id).make(), &id).refusal();
        for word in ["annotations[facts.nri-container-runtime/x]", "\"10-adjust\"", "reserved"] {
            assert!(line.contains(word), "{word:?} is not in: {line}");
        }
    });
}
