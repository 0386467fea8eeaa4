//! Tests of the plugin `rules` with real runtimes: the recipe for builds, several files, conflicts
//! with other plugins, files with mistakes. The other recipes are tested with Docker and Podman
//! (`tests/engines/both/rules.rs`).

use nri_integration::*;
use rustix::process::Signal;
use serde_json::json;
use std::{fs, os::unix::fs::symlink};

/// Installs the plugin, `NN-name`, with this file.
fn install(node: &Node, name: &str, text: &str) {
    fs::write(node.path("conf.d").join(format!("{name}.conf")), text).unwrap();
    symlink(node.program("nri-rules"), node.path("plugins").join(name)).unwrap();
}

#[test]
fn the_recipe_for_builds_limits_containers_of_buildkit() {
    for_each_runtime("recipe builds", |runtime| {
        let node = Node::new(runtime);
        node.configure("containers.facts = ['engine']");
        let recipe = script("../src/plugins/rules/cookbook/builds.yaml");
        install(&node, "50-rules", &fs::read_to_string(recipe).unwrap());
        let report = |name: &str, directory: &str| {
            let id = node.id(name);
            let resources = r#"{"pids": {"limit": 9999}}"#;
            // BuildKit's bundles are `executor/ID`, with the root file system in them.
            let dir = node.path(directory).join(&id);
            let bundle = node.bundle(&id).root(&dir.join("rootfs")).resources(resources);
            let script = "/probe once; echo oom_score_adj=$(cat /proc/self/oom_score_adj)";
            let bundle = bundle.arguments(&["/bin/sh", "-c", script]).make();
            fs::rename(bundle.config(), dir.join("config.json")).unwrap();
            let mut command = node.wrapper();
            // BuildKit calls `run`.
            command.arg("run").arg("--bundle").arg(&dir).arg(&id);
            let ran = node.run(command).success();
            Report::parse(&ran.out())
        };
        let build = report("step", "executor");
        build.check(&[
            ("memory.limit_in_bytes|memory.max", "4294967296"),
            ("cpu.cfs_quota_us|cpu.max", "200000|200000 100000"),
            ("pids.max", "4096"),
            ("oom_score_adj", "500"),
        ]);
        let service = report("service", "services");
        service.check(&[("pids.max", "9999")]);
    });
}

/// With `docker update --cpu-period` in place of `--cpus`, a container of one CPU had a hundred.
#[test]
fn a_limit_of_cpus_holds_after_an_update_of_the_period() {
    for_each_runtime("rules and an update", |runtime| {
        let node = Node::new(runtime);
        install(&node, "50-rules", "rules: [{name: a, at_most: {cpus: 1}}]");
        let id = node.id("web");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
        node.create(&bundle, &id).success();
        let cpu = || {
            let quota = node.cgroup_file(&id, "cpu", "cpu.cfs_quota_us", "cpu.max");
            (quota, node.cgroup_file(&id, "cpu", "cpu.cfs_period_us", "cpu.max"))
        };
        let expected = |quota: &str, period: &str| match is_cgroup_v2() {
            true => (format!("{quota} {period}"), format!("{quota} {period}")),
            false => (quota.to_owned(), period.to_owned()),
        };
        assert_eq!(cpu(), expected("100000", "100000"));
        node.call(&["update", "--cpu-period", "10000", &id]).success();
        assert_eq!(cpu(), expected("10000", "10000"));
        node.call(&["update", "--cpu-quota", "500000", &id]).success();
        assert_eq!(cpu(), expected("10000", "10000"));
    });
}

/// With `memory.max` in `unified` in place of `memory.limit`, a container had any limit.
#[test]
fn a_limit_holds_for_unified_at_a_creation_and_in_an_update() {
    for_each_runtime("rules and unified", |runtime| {
        let node = Node::new(runtime);
        let limits = "at_most: {memory.limit: 64Mi, pids.limit: 50, cpus: 1}";
        install(&node, "50-rules", &format!("rules: [{{name: a, {limits}}}]"));
        let id = node.id("web");
        let unified = r#"{"memory.max": "536870912", "pids.max": "max", "cpu.max": "max 20000"}"#;
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]);
        let bundle = bundle.resources(&format!(r#"{{"unified": {unified}}}"#)).make();
        if !is_cgroup_v2() {
            let refused = node.create(&bundle, &id).refusal();
            assert!(refused.contains("unified"), "{refused}");
            return limitation("rules and unified", "runtimes take unified on cgroup v2 only");
        }
        node.create(&bundle, &id).success();
        let files = || {
            ["memory.max", "pids.max", "cpu.max"].map(|file| node.cgroup_file(&id, "", "", file))
        };
        assert_eq!(files(), ["67108864", "50", "20000 20000"]);
        let file = node.path("update.json");
        let update = |resources: serde_json::Value| {
            fs::write(&file, resources.to_string()).unwrap();
            node.call(&["update", "--resources", &file.display().to_string(), &id]).success();
        };
        update(json!({"unified": {"memory.max": "536870912", "pids.max": "51"}}));
        assert_eq!(files(), ["67108864", "50", "20000 20000"]);
        update(json!({"unified": {"memory.max": "33554432", "pids.max": "7"}}));
        assert_eq!(files(), ["33554432", "7", "20000 20000"]);
        update(json!({"memory": {"limit": 536_870_912}}));
        assert_eq!(files(), ["67108864", "7", "20000 20000"]);
    });
}

/// A container that the rules would refuse was created if the plugin did not reply in time.
#[test]
fn no_container_is_created_without_a_reply_of_rules_that_refuse() {
    for_each_runtime("rules without a reply", |runtime| {
        let node = Node::new(runtime);
        node.configure("plugin_request_timeout = '500ms'");
        install(&node, "50-rules", "rules: [{name: a, match: 'false', refuse: never}]");
        install(&node, "60-rules", "rules: [{name: a, set: {pids.limit: 50}}]");
        node.ctl(&["start"]).success();
        let create = |name: &str| {
            let id = node.id(name);
            node.create(&node.bundle(&id).make(), &id)
        };
        create("web").success();
        let plugin = |name: &str| {
            let status = node.status().expect("nrid runs");
            let mut plugins = status["plugins"].as_array().expect("a list").iter();
            let plugin = plugins.find(|plugin| plugin["name"] == name).expect("the plugin");
            Process(u32::try_from(plugin["pid"].as_u64().expect("a pid")).expect("a number"))
        };
        // It only sets a value.
        plugin("60-rules").signal(Signal::STOP);
        create("db").success();
        plugin("50-rules").signal(Signal::STOP);
        let refused = create("late").refusal();
        assert!(refused.contains("50-rules"), "{refused}");
    });
}

#[test]
fn plugins_with_several_files_and_other_plugins_conflict_by_field() {
    let Some(go_plugin) = go_plugin("rules and another plugin") else { return };
    for_each_runtime("rules in several files", |runtime| {
        let node = Node::new(runtime);
        let files = [
            ("50-rules", "rules: [{name: a, default: {env: {A: a}}, set: {pids.limit: 50}}]"),
            (
                "60-rules",
                "rules: [{name: b, default: {env: {A: b, B: b}}, at_most: {pids.limit: 60}}]",
            ),
        ];
        files.iter().for_each(|(name, text)| install(&node, name, text));
        let (web, script) = (node.id("web"), "echo $A $B");
        let bundle = node.bundle(&web).arguments(&["/bin/sh", "-c", script]).make();
        let mut command = node.wrapper();
        command.arg("run").arg("--bundle").arg(bundle.dir()).arg(&web);
        // The second file sees what the first one has done.
        assert_eq!(node.run(command).success().out(), "a b\n");
        let limit = json!({"linux": {"resources": {"pids": {"limit": 77}}}});
        let config = json!({"rules": [{"adjust": limit}]}).to_string();
        let _other = node.connect("10-other", &go_plugin, &config);
        let id = node.id("db");
        let refused = node.create(&node.bundle(&id).make(), &id).refusal();
        for text in ["10-other", "50-rules", "pids.limit"] {
            assert!(refused.contains(text), "{refused}");
        }
    });
}

#[test]
fn a_file_with_a_mistake_changes_nothing() {
    for_each_runtime("rules with a mistake", |runtime| {
        let node = Node::new(runtime);
        node.configure("plugin = [{ match = 'rules', required = true }]");
        install(
            &node,
            "50-rules",
            "rules: [{name: a, match: 'annotations.size() > 0', refuse: never}]",
        );
        node.ctl(&["start"]).success();
        let refusal = |name: &str| {
            let id = node.id(name);
            node.create(&node.bundle(&id).annotation("a=b").make(), &id).refusal()
        };
        assert!(refusal("a").contains("rule \"a\": never"));
        let file = node.path("conf.d/50-rules.conf");
        fs::write(&file, "rules:\n  - name: b\n    refuze: no\n").unwrap();
        let reloaded = node.ctl(&["reload"]);
        assert_eq!(reloaded.code, Some(4), "{}", reloaded.err());
        let text = reloaded.out() + &reloaded.err();
        for part in ["line 3, column 5", "refuze", "continues with its previous configuration"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(refusal("b").contains("rule \"a\": never"));
        // A start with such a file creates no container, since the plugin is required.
        node.ctl(&["stop"]).success();
        let refused = refusal("c");
        assert!(refused.contains("rules"), "{refused}");
    });
}

#[test]
fn a_service_takes_its_file_again_at_a_reload_unless_it_has_a_mistake() {
    for_each_runtime("rules as a service", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let file = node.path("rules.yaml");
        let write = |message: &str| {
            let rule = format!("{{name: a, match: 'annotations.size() > 0', refuse: {message}}}");
            fs::write(&file, format!("rules: [{rule}]")).unwrap();
        };
        write("first");
        let service = PluginService::start(&node, "rules", &file);
        let refusal = |name: &str| {
            let id = node.id(name);
            node.create(&node.bundle(&id).annotation("a=b").make(), &id).refusal()
        };
        assert!(refusal("a").contains("50-rules"), "{}", refusal("a"));
        assert!(refusal("a").contains("rule \"a\": first"));
        write("second");
        service.reload().success();
        wait_until("the second file", || refusal("b").contains("second").then_some(()));

        // What refuses containers that have no such annotation is a warning.
        let text = "rules: [{name: w, match: 'annotations[\"a\"] == \"b\"', refuse: third}]";
        fs::write(&file, text).unwrap();
        service.reload().success();
        wait_until("the third file", || refusal("w").contains("third").then_some(()));
        let warning = "rule \"w\": match reads annotations[\"a\"]";
        assert!(service.log().contains(warning), "{}", service.log());
        write("second");
        service.reload().success();
        wait_until("the second file again", || refusal("x").contains("second").then_some(()));

        fs::write(&file, "rules:\n  - name: c\n    refuze: no\n").unwrap();
        let reloaded = service.reload();
        assert_eq!(reloaded.code, Some(4));
        assert!(reloaded.err().contains("line 3, column 5"), "{}", reloaded.err());
        assert!(refusal("c").contains("second"));
        // Without the check of the unit, the log has the mistake.
        service.process().signal(Signal::HUP);
        let expected = format!("{}: line 3, column 5: unknown key `refuze`", file.display());
        wait_until(&expected, || service.log().contains(&expected).then_some(()));
        assert!(service.log().contains("the previous configuration stays"), "{}", service.log());
        assert!(refusal("d").contains("second"));
        // What the file has at the start of another nrid does not matter, either.
        node.ctl(&["stop"]).success();
        node.ctl(&["start"]).success();
        wait_until("the plugin to connect again", || {
            let status = node.status()?;
            let mut plugins = status["plugins"].as_array()?.iter();
            plugins.any(|p| p["name"] == "50-rules" && p["state"] == "active").then_some(())
        });
        assert!(refusal("e").contains("second"));
    });
}

/// A file that loads, and then refuses containers, looked like any other.
#[test]
fn a_reload_shows_the_file_and_what_the_plugin_says_of_it() {
    for_each_runtime("warnings of rules", |runtime| {
        let node = Node::new(runtime);
        let refuses = "rules: [{name: a, match: 'labels.team == \"x\"', refuse: x}]";
        install(&node, "50-rules", refuses);
        node.ctl(&["start"]).success();
        let file = node.path("conf.d").join("50-rules.conf");
        let reloaded = node.ctl(&["reload"]).success().out();
        assert!(reloaded.contains(&format!("kept ({})", file.display())), "{reloaded}");
        assert!(reloaded.contains("  warning: rule \"a\""), "{reloaded}");
        let status = node.ctl(&["status"]).success().out();
        assert!(status.contains("warning: rule \"a\""), "{status}");
        fs::write(node.path("conf.d").join("rules.conf"), "rules: []").unwrap();
        fs::write(&file, "rules: [{name: a, refuse: x}]").unwrap();
        let reloaded = node.ctl(&["reload"]).success().out();
        assert!(!reloaded.contains("warning: rule"), "{reloaded}");
        assert!(reloaded.contains("rules.conf has no effect: plugin 50-rules"), "{reloaded}");
        fs::write(&file, "rules: [{nam: a}]").unwrap();
        let reloaded = node.ctl(&["reload"]);
        assert_eq!(reloaded.code, Some(4), "{}", reloaded.err());
        let reloaded = reloaded.out();
        let failed = format!("failed: cannot be configured with {}: line 1", file.display());
        assert!(reloaded.contains(&failed), "{reloaded}");
    });
}

/// Without a word of `start`, the first container was created without the rules.
#[test]
fn a_start_names_a_plugin_that_refuses_its_first_file() {
    for_each_runtime("first file of rules", |runtime| {
        let node = Node::new(runtime);
        install(&node, "50-rules", "rules: [{nam: a}]");
        let started = node.ctl(&["start"]).success().out();
        let file = node.path("conf.d").join("50-rules.conf");
        let failed = format!("failed: cannot be configured with {}: line 1", file.display());
        assert!(started.contains("50-rules") && started.contains(&failed), "{started}");
    });
}
