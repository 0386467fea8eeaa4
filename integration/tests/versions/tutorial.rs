//! Plugins that a newcomer makes of the tutorial and of the template, with `nrid`.

use nri_integration::*;
use std::os::unix::fs::symlink;

/// The value of a variable in an adjusted `config.json`.
fn env(node: &Node, id: &str, name: &str) -> Option<String> {
    let config = node.adjusted(id);
    let variables = config["process"]["env"].as_array()?;
    variables.iter().find_map(|v| Some(v.as_str()?.strip_prefix(name)?.strip_prefix('=')?.into()))
}

#[test]
fn a_plugin_of_the_tutorial_adjusts_containers_before_and_after_a_restart() {
    let program = tutorial_plugin();
    for_each_runtime("tutorial", |runtime| {
        let node = Node::new(runtime);
        // As after a boot: the plugin is there before `nrid`.
        let socket = node.state_dir().join("plugins/nri.sock");
        let plugin = Newcomer::start(program, &socket, &node.path(""));
        for times in 1..=2 {
            if times == 1 {
                node.ctl(&["start"]).success();
            } else {
                node.ctl(&["restart"]).success();
            }
            plugin.wait_for_synchronizations(times);
            let id = node.id(&format!("c{times}"));
            let bundle = node.bundle(&id).make();
            node.create(&bundle, &id).success();
            let greeting = env(&node, &id, "WELCOME").unwrap_or_default();
            let messages = plugin.messages();
            assert_eq!(greeting, format!("I am {id}"), "{messages}");
            assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "100");
        }
        assert!(plugin.terminate().success());
        wait_until("the end of the session", || {
            let status = node.status()?;
            let is_open =
                |p: &serde_json::Value| p["name"] == "50-welcome" && p["state"] == "active";
            (!status["plugins"].as_array()?.iter().any(is_open)).then_some(())
        });
    });
}

#[test]
fn a_plugin_of_the_template_is_launched_with_its_configuration() {
    let program = template_plugin();
    for_each_runtime("template", |runtime| {
        let node = Node::new(runtime);
        symlink(&program, node.path("plugins").join("50-my-plugin")).unwrap();
        let config = node.path("conf.d").join("50-my-plugin.conf");
        std::fs::write(config, "env: {HELLO: template}\npids: 77\n").unwrap();
        let id = node.id("c");
        let bundle = node.bundle(&id).make();
        node.create(&bundle, &id).success();
        assert_eq!(env(&node, &id, "HELLO").as_deref(), Some("template"));
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "77");
    });
}
