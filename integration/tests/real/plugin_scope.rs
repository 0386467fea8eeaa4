//! Tests of plugins whose policies limit them to some containers, or observe them.

use nri_integration::*;
use serde_json::Value;

/// Sets a variable, and for the plugin that must not have an effect also a limit.
fn create(variable: &str) -> String {
    format!("[create]\nenv = {{ set = {{ {variable} = 'x' }} }}\n")
}

fn is_named(field: &&Value, name: &str) -> bool {
    field["field"] == name
}

#[test]
fn only_plugins_that_are_for_a_container_change_it() {
    for_each_runtime("scope and observe", |runtime| {
        let node = Node::new(runtime);
        let name = runtime.path.file_name().unwrap().to_str().unwrap();
        // An engine that `nrid` does not know, such as these tests, is plain.
        node.configure(&format!(
            "plugin = [\n\
             {{ match = '10-in', scope = {{ engines = ['pl*'], runtimes = ['{name}'] }} }},\n\
             {{ match = '20-hidden', required = true, scope = {{ engines = ['docker'] }} }},\n\
             {{ match = '30-read', scope = {{ namespaces = ['other'] }}, \
                outside_scope = 'read_only' }},\n\
             {{ match = '40-observed', mode = 'observe', required = true }},\n\
             {{ match = '50-refuses', mode = 'observe' }},\n\
             ]\n"
        ));
        let launch = |plugin: &str, config: &str| node.launch(plugin, &Program::Adjust, config);
        let sees = launch("10-in", &create("IN"));
        let hidden = launch("20-hidden", &create("HIDDEN"));
        let reads = launch("30-read", &create("READ"));
        // A conflict with the first one if it took effect.
        let pids = "[create.resources]\npids = 77\n";
        let observed = launch("40-observed", &(create("OBSERVED") + pids));
        launch("50-refuses", "[create]\nrefuse = 'not here'\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).resources(r#"{"pids": {"limit": 50}}"#);
        node.create(&bundle.arguments(&["/bin/sleep", "1000"]).make(), &id).success();
        node.call(&["start", &id]).success();
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max").trim(), "50");
        let env = node.adjusted(&id)["process"]["env"].to_string();
        assert!(env.contains("IN=x"), "{env}");
        assert!(["HIDDEN", "READ", "OBSERVED"].iter().all(|other| !env.contains(other)), "{env}");
        let explained = node.ctl(&["explain", "--json", &id]).success().out();
        let explained: Value = serde_json::from_str(&explained).unwrap();
        for (field, by, message) in [
            ("env[READ]", "30-read", "outside its scope"),
            ("env[OBSERVED]", "40-observed", "observed"),
            ("pids.limit", "40-observed", "observed"),
        ] {
            let mut fields = explained["fields"].as_array().unwrap().iter();
            let found =
                fields.find(|f| is_named(f, field)).unwrap_or_else(|| panic!("{explained}"));
            let step = &found["changes"][0];
            assert_eq!((&step["by"], &step["message"]), (&by.into(), &message.into()), "{found}");
            assert_eq!(step["event"], "would_adjust");
            assert_eq!(found["after"], found["before"]);
        }
        let notes = explained["notes"].to_string();
        assert!(notes.contains("would_refuse") && notes.contains("not here"), "{notes}");
        let status = node.ctl(&["status"]).success().out();
        let scope = format!("10-in: scope: engines pl*, runtimes {name}; others hidden");
        assert!(status.contains(&scope) && status.contains("40-observed: observed"), "{status}");
        node.call(&["delete", "--force", &id]).success();
        for journal in [sees, reads, observed] {
            journal.wait_for("RemoveContainer", &id);
        }
        assert_eq!(hidden.events(&id), [""; 0]);
    });
}
