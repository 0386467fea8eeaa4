//! Tests of operations while containers run: reload, upgrade, restart, idle exit and stop of
//! `nrid`, and `nrictl doctor`.

use nri_integration::*;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Returns the events of a container without `Synchronize`.
fn events(journal: &Journal, id: &str) -> Vec<String> {
    let events = journal.events(id);
    events.into_iter().filter(|e| e != "Synchronize").collect()
}

#[test]
fn a_reload_keeps_containers_and_synchronizes_new_plugins() {
    for_each_runtime("reload", |runtime| {
        let node = Node::new(runtime);
        let set = |value: &str| format!("[create]\nenv = {{ set = {{ FROM = '{value}' }} }}\n");
        let changed = node.launch("10-changed", &Program::Adjust, &set("before"));
        let same = node.launch("20-same", &Program::Adjust, "");
        let id = node.id("c");
        node.create(&node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), &id).success();
        node.call(&["start", &id]).success();
        same.wait_for("PostStartContainer", &id);
        let (nrid, state) = (node.nrid(), node.state(&id).unwrap());
        let received = same.entries().len();

        let text = fs::read_to_string(node.path("conf.d/10-changed.conf")).unwrap();
        fs::write(node.path("conf.d/10-changed.conf"), text.replace("before", "after")).unwrap();
        let new = node.launch("30-new", &Program::Adjust, "");
        let output = node.ctl(&["reload"]).success().out();
        for line in [
            "10-changed               relaunched: configuration changed",
            "20-same                  kept",
            "30-new                   launched",
        ] {
            assert!(output.contains(line), "{line:?} is not in: {output}");
        }
        assert_eq!(node.nrid(), nrid);
        assert_eq!(node.state(&id).unwrap()["pid"], state["pid"]);
        assert_eq!(same.entries().len(), received, "20-same received an event");
        for journal in [&changed, &new] {
            wait_until("Synchronize with the container", || {
                journal.events(&id).iter().any(|e| e == "Synchronize").then_some(())
            });
        }
        let second = node.id("second");
        let bundle = node.bundle(&second).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &second).success();
        assert!(node.adjusted(&second).to_string().contains("FROM=after"));

        // The first reload removes the plugin 30-new; the second one has an invalid configuration.
        fs::remove_file(node.path("plugins/30-new")).unwrap();
        node.ctl(&["reload"]).success();
        let received = new.entries().len();
        node.configure("nonsense = 1\n");
        let refused = node.ctl(&["reload"]);
        assert_eq!(refused.code, Some(1));
        assert!(
            refused.err().contains("line ") && refused.err().contains("nonsense"),
            "{}",
            refused.err()
        );
        node.configure("");
        for id in [&id, &second] {
            node.call(&["delete", "--force", id]).success();
            changed.wait_for("RemovePodSandbox", id);
        }
        assert_eq!(events(&same, &id), life_cycle(&[]));
        assert_eq!(new.entries().len(), received, "the removed plugin received an event");
    });
}

#[test]
fn containers_are_created_while_nrid_is_replaced() {
    for_each_runtime("upgrade", |runtime| {
        let node = Node::new(runtime);
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let dir = node.install();
        let program = dir.join("nrid");
        let built = fs::canonicalize(&program).unwrap();
        let install = || {
            let new = dir.join("new");
            copy_program(&built, &new);
            fs::rename(&new, &program).unwrap();
        };
        install();
        let call = |arguments: &[&str]| {
            let mut command = node.wrapper_at(&dir.join("nri-container-runtime"), runtime);
            command.args(arguments);
            node.run(command)
        };
        let create_and_start = |id: &str| {
            let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
            call(&["create", "--bundle", bundle.dir().to_str().unwrap(), id]).success();
            assert!(node.adjusted(id).to_string().contains("A=b"), "{id} was not adjusted");
            call(&["start", id]).success();
        };
        let kept = node.id("kept");
        create_and_start(&kept);
        let nrid = node.nrid().unwrap();
        let exe = || fs::metadata(format!("/proc/{}/exe", nrid.0)).unwrap().ino();
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        let ((stop, stop_guard), count) = (StopFlag::new(), AtomicUsize::new(0));
        let created = thread::scope(|scope| {
            let creators: Vec<_> = ["a", "b"]
                .map(|name| {
                    let (node, stop, count) = (&node, &stop, &count);
                    let (create_and_start, call) = (&create_and_start, &call);
                    scope.spawn(move || {
                        let mut created = Vec::new();
                        while !stop.is_set() {
                            let id = node.id(&format!("{name}{}", created.len()));
                            create_and_start(&id);
                            call(&["delete", "--force", &id]).success();
                            created.push(id);
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        created
                    })
                })
                .into();
            for _ in 0..4 {
                install();
                let output = node.ctl(&["restart"]).success().out();
                assert!(output.contains(&format!("pid {}", nrid.0)), "{output}");
                assert_eq!(exe(), inode(&program));
                let before = count.load(Ordering::Relaxed);
                wait_until("two more containers after the restart", || {
                    (count.load(Ordering::Relaxed) >= before + 2).then_some(())
                });
            }
            drop(stop_guard);
            creators.into_iter().flat_map(|c| c.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(node.status().unwrap()["restart_error"], serde_json::Value::Null);
        assert_eq!(node.state(&kept).unwrap()["status"], "running");
        call(&["kill", &kept, "KILL"]).success();
        journal.wait_for("StopContainer", &kept);
        call(&["delete", &kept]).success();
        for id in created.iter().chain([&kept]) {
            journal.wait_for("RemovePodSandbox", id);
            let received = events(&journal, id);
            for event in [
                "RunPodSandbox",
                "CreateContainer",
                "StopContainer",
                "RemoveContainer",
                "RemovePodSandbox",
            ] {
                assert_eq!(
                    received.iter().filter(|e| *e == event).count(),
                    1,
                    "plugins did not receive {event} of {id} exactly once: {received:?}"
                );
            }
        }
        println!("{} containers were created while nrid was replaced 4 times", created.len());
    });
}

/// Writes the configuration with `tables` after the paths: TOML requires top-level keys first.
fn configure_with_tables(node: &Node, tables: &str) {
    node.configure("");
    let paths = fs::read_to_string(node.config()).unwrap();
    fs::write(node.config(), paths + tables).unwrap();
}

/// Returns the findings of `nrictl doctor` on a subject, except those that are `ok`.
fn findings(node: &Node, subject: &str) -> Vec<String> {
    let output = node.ctl(&["doctor", "--json"]).out();
    let report: serde_json::Value = serde_json::from_str(&output).unwrap();
    let all = report["findings"].as_array().unwrap().iter();
    let of = all.filter(|f| f["about"] == subject && f["severity"] != "ok");
    of.map(|f| format!("{} {}", f["severity"].as_str().unwrap(), f["text"].as_str().unwrap()))
        .collect()
}

#[test]
fn doctor_reports_configuration_that_nrid_has_not_loaded() {
    for_each_runtime("doctor", |runtime| {
        let node = Node::new(runtime);
        let check_finding = |subject: &str, text: &str| {
            let found = findings(&node, subject);
            assert!(
                found.iter().any(|f| f.contains(text)),
                "{subject}: {text:?} is not in {found:?}"
            );
        };
        // A required plugin that fails keeps nrid from starting.
        node.launch("10-adjust", &Program::Adjust, "nonsense = 1\n");
        let policy = "[[plugin]]\nmatch = '10-adjust'\nrequired = true\n";
        configure_with_tables(&node, policy);
        let failed = node.ctl(&["start"]);
        assert_eq!(failed.code, Some(1));
        check_finding("nrid", "problem it is not running: its last start failed");
        check_finding("nrid", "nonsense");
        let config = node.path("conf.d/10-adjust.conf");
        fs::write(&config, "").unwrap();
        node.ctl(&["start"]).success();
        assert_eq!(findings(&node, "nrid"), [""; 0]);
        assert_eq!(findings(&node, "configuration"), [""; 0]);

        // The configuration changes, with a policy for an unknown plugin, and a plugin is added.
        configure_with_tables(&node, "[[plugin]]\nmatch = '10-adjsut'\n");
        check_finding("configuration", "differs from the configuration that nrid has read");
        node.launch("20-new", &Program::Adjust, "");
        check_finding("plugin", "warning 20-new: not launched: file added after the start");
        assert!(
            node.ctl(&["status"])
                .out()
                .contains("not launched: file added after the start; nrictl reload")
        );
        node.ctl(&["reload"]).success();
        assert_eq!((findings(&node, "configuration"), findings(&node, "plugin")), (vec![], vec![]));
        check_finding("policy", "info [[plugin]] match = \"10-adjsut\": there is no such plugin");
        assert!(
            node.log().contains("10-adjsut"),
            "the log of nrid lacks the unknown plugin: {}",
            node.log()
        );

        // `status` and `stop` work with a configuration that is invalid or not trusted.
        configure_with_tables(&node, "nonsense = 1\n");
        // The harness has written the five lines before.
        check_finding("configuration", "config.toml: line 6, column 1: unknown key `nonsense`");
        let status = node.ctl(&["status"]).success();
        assert!(
            status.out().contains("20-new") && status.err().contains("warning: configuration"),
            "{}",
            status.err()
        );
        node.configure("");
        fs::set_permissions(node.config(), std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .unwrap();
        check_finding("configuration", "is not trusted");
        assert!(node.ctl(&["status"]).success().err().contains("writable by everybody"));
        fs::write(node.config(), format!("state_dir = {:?}\nnonsense = 1\n", node.state_dir()))
            .unwrap();
        node.ctl(&["stop"]).success();
        assert_eq!(node.nrid(), None);
        fs::set_permissions(node.config(), std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .unwrap();
        node.configure("");
    });
}

#[test]
fn a_call_while_nrid_exits_is_handled_by_the_next_nrid() {
    for_each_runtime("idle exit", |runtime| {
        let node = Node::new(runtime);
        node.configure("idle_timeout = '60ms'");
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let mut nrids = std::collections::BTreeSet::new();
        for n in 0..12 {
            let id = node.id(&format!("c{n}"));
            let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
            node.create(&bundle, &id).success();
            assert!(node.adjusted(&id).to_string().contains("A=b"));
            nrids.extend(node.nrid().map(|p| p.0));
            node.call(&["start", &id]).success();
            node.call(&["delete", "--force", &id]).success();
            journal.wait_for("RemovePodSandbox", &id);
            assert_eq!(events(&journal, &id), life_cycle(&[]), "{id}");
            // The pauses grow from 0 to 110 ms, so that calls arrive before, during and after the
            // idle exit.
            thread::sleep(std::time::Duration::from_millis(10 * n));
        }
        assert!(
            nrids.len() > 1,
            "the same nrid served all calls: it did not exit when it was idle"
        );
    });
}

/// If a plugin has not replied when `nrid` stops, the creation must not proceed without the reply:
/// the next `nrid` sends CreateContainer again.
#[test]
fn the_next_nrid_finishes_a_request_that_was_in_progress() {
    let Some(go_plugin) = go_plugin("the end of nrid") else { return };
    for_each_runtime("the end of nrid", |runtime| {
        let node = Node::new(runtime);
        let resume = node.path("resume");
        let rule = json!({"until": resume, "adjust": {"annotations": {"a": "b"}}});
        let journal = node.launch("10-slow", &go_plugin, &json!({"rules": [rule]}).to_string());
        let id = node.id("c");
        let bundle = node.bundle(&id).make();
        thread::scope(|scope| {
            let creating = scope.spawn(|| node.create(&bundle, &id));
            journal.wait_for("CreateContainer", &id);
            // `stop` waits only a limited time for requests in progress, so it succeeds before the
            // reply.
            node.ctl(&["stop"]).success();
            fs::write(&resume, "").unwrap();
            creating.join().unwrap().success();
        });
        assert_eq!(node.adjusted(&id)["annotations"]["a"], "b");
        let requested =
            journal.events(&id).iter().filter(|event| *event == "CreateContainer").count();
        assert_eq!(requested, 2);
        node.call(&["delete", "--force", &id]).success();
    });
}

/// An engine may call the wrapper with blocked signals. `nrid`, which the wrapper starts, must not
/// inherit them.
#[test]
fn nrid_handles_signals_that_the_caller_of_the_wrapper_blocked() {
    for_each_runtime("blocked signals", |runtime| {
        let node = Node::new(runtime);
        let id = node.id("c");
        let bundle = node.bundle(&id).make();
        let wrapper = node.wrapper();
        let mut command = std::process::Command::new("env");
        command.arg("--block-signal").arg(wrapper.get_program()).args(wrapper.get_args());
        command.args(["create", "--bundle"]).arg(bundle.dir()).arg(&id);
        node.run(command).success();
        let nrid = node.nrid().unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", nrid.0)).unwrap();
        assert!(status.contains("\nSigBlk:\t0000000000000000\n"), "{status}");
        node.call(&["delete", "--force", &id]).success();
    });
}
