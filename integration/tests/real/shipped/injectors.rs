//! What plugins inject is in containers: devices, mounts, hooks, classes.

use super::{install, node};
use nri_integration::*;
use serde_json::{Value, json};
use std::fs;

#[test]
fn a_device_and_a_mount_are_injected() {
    for_each_runtime("device-injector", |runtime| {
        let node = node(runtime);
        install(&node, "device-injector", "");
        fs::write(node.path("shared"), "from the host").unwrap();
        let id = node.id("c");
        let device = "- path: /dev/injected\n  type: c\n  major: 1\n  minor: 5\n  file_mode: 0640";
        let mount = format!(
            "- source: {}\n  destination: /shared\n  type: bind\n  options: [bind, ro]",
            node.path("shared").display()
        );
        let script = "head -c 4 /dev/injected | od -A n -t x1; stat -c %a /dev/injected; \
                      cat /shared; echo x >/shared || echo ' read-only'; \
                      test -e /dev/other || echo none";
        let bundle = node
            .bundle(&id)
            .arguments(&["/bin/sh", "-c", script])
            .annotation(&format!("devices.noderesource.dev/container.{id}={device}"))
            .annotation("devices.noderesource.dev/pod=- path: /dev/other")
            .annotation(&format!("mounts.nri.io/pod={mount}"))
            .make();
        let ran = node.call(&["run", "--bundle", bundle.dir().to_str().unwrap(), &id]).success();
        let out = ran.out();
        let lines: Vec<_> = out.lines().map(str::trim).collect();
        assert_eq!(lines, ["00 00 00 00", "640", "from the host read-only", "none"], "{out}");

        let refused = node.id("refused");
        let bundle =
            node.bundle(&refused).annotation("io-priority.noderesource.dev/pod=class: best").make();
        let line = node.create(&bundle, &refused).refusal();
        let expected = "invalid annotation io-priority.noderesource.dev/pod: unknown class";
        assert!(line.contains("10-device-injector") && line.contains(expected), "{line}");
    });
}

#[test]
fn hooks_of_a_directory_run() {
    for_each_runtime("hook-injector", |runtime| {
        let node = node(runtime);
        let (hooks, log) = (node.path("hooks.d"), node.path("hooks.log"));
        fs::create_dir(&hooks).unwrap();
        install(&node, "hook-injector", &format!("-hooks-dir {}", hooks.display()));
        let program = node.path("hook");
        let text = format!("#!/bin/sh\necho \"$1 $A $(cat)\" >>'{}'\n", log.display());
        write_program(&program, &text);
        let define = |file: &str, when: Value, stages: Value| {
            let hook = json!({"path": program, "args": ["hook", file], "env": ["A=b",
                "PATH=/bin:/usr/bin"], "timeout": 10});
            let text = json!({"version": "1.0.0", "hook": hook, "when": when, "stages": stages});
            fs::write(hooks.join(format!("{file}.json")), text.to_string()).unwrap();
        };
        define("20-late", json!({"commands": ["^/bin/sl"]}), json!(["prestart"]));
        define("10-early", json!({"annotations": {"^hooks$": "^yes$"}}), json!(["createRuntime"]));
        define("30-end", json!({"always": true}), json!(["poststop"]));
        define("40-not", json!({"commands": ["^/bin/sh$"]}), json!(["poststop", "prestart"]));
        let calls = || -> Vec<String> {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let calls = log.lines().map(|line| {
                let (call, state) = line.split_at(line.find('{').unwrap());
                let state: Value = serde_json::from_str(state).unwrap();
                format!("{call}{}", state["id"].as_str().unwrap())
            });
            calls.collect()
        };

        let id = node.id("c");
        let arguments = ["/bin/sleep", "1000"];
        let bundle = node.bundle(&id).arguments(&arguments).annotation("hooks=yes").make();
        node.create(&bundle, &id).success();
        assert_eq!(calls(), [format!("10-early b {id}"), format!("20-late b {id}")]);
        node.call(&["delete", "--force", &id]).success();
        assert_eq!(calls()[2..], [format!("30-end b {id}")]);

        // A definition that is written later holds for the next container.
        fs::remove_file(hooks.join("20-late.json")).unwrap();
        define("15-new", json!({"hasBindMounts": true}), json!(["prestart"]));
        let bundle = node.bundle(&node.id("d")).arguments(&arguments).make();
        bundle.edit(|config| {
            let mounts = config["mounts"].as_array_mut().unwrap();
            let mount = json!({"destination": "/x", "type": "bind", "source": "/proc",
                "options": ["rbind"]});
            mounts.push(mount);
        });
        let id = node.id("d");
        node.create(&bundle, &id).success();
        assert_eq!(calls()[3..], [format!("15-new b {id}")]);
        node.call(&["delete", "--force", &id]).success();
    });
}

#[test]
fn classes_are_assigned() {
    for_each_runtime("resource-classes", |runtime| {
        let node = Node::new(runtime);
        let classes = node.path("blockio.yaml");
        fs::write(&classes, "Classes:\n  slow:\n  - Weight: 50\n").unwrap();
        node.configure(&format!("blockio.config_file = {classes:?}"));
        install(&node, "resource-classes", "");
        let create = |name: &str, annotation: &str| {
            let id = node.id(name);
            let bundle = node.bundle(&id).annotation(annotation).make();
            (node.create(&bundle, &id), bundle)
        };
        let (_, bundle) = create("slow", "blockio.resources.beta.kubernetes.io/pod=slow");
        assert!(node.log().contains("block I/O class"), "{}", node.log());
        // Whether the kernel has weights depends on its I/O scheduler, so only the request counts.
        let (refused, _) = create("fast", "blockio.resources.beta.kubernetes.io/pod=fast");
        assert!(refused.refusal().contains("fast"), "{:?}", bundle.dir());
    });
}
