//! Tests of plugins that are WebAssembly modules: modules that are compiled from Go and from Rust,
//! and modules that loop, use up memory, trap, or are invalid. The latter must cost a container one
//! timeout at most, and the plugin beside them nothing.

mod modules;

use modules::{EATS_MEMORY, LOOPS, RETURNS_NOTHING, TRAPS, install, module};
use nri_integration::*;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Sets a limit by which a container shows that the plugin beside the module was asked.
const GOOD: &str = "[create.resources]\npids = 66\n";

/// Returns how often the log says that the plugin `10-bad` became active.
fn active(node: &Node) -> usize {
    node.log().matches("plugin=\"10-bad\" state=Active").count()
}

/// Returns how many processes run the module `10-bad` of a node.
fn hosts(node: &Node) -> usize {
    let module = node.path("plugins/10-bad").display().to_string();
    let runs = |process: &Process| {
        let line = fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&module)
    };
    Process::all().iter().filter(|process| runs(process)).count()
}

/// Creates a container and checks that the plugin beside the module has adjusted it.
fn check_created(node: &Node, name: &str) {
    let id = node.id(name);
    node.create(&node.bundle(&id).make(), &id).success();
    assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "66", "{name}");
    node.call(&["start", &id]).success();
}

#[test]
fn a_module_that_loops_eats_memory_or_traps_costs_one_call_and_is_launched_again() {
    for_each_runtime("wasm, failing", |runtime| {
        for (name, instructions, timeout, timeouts, last_line) in [
            // nrid counts the timeout, and ends the process before the module's own limit.
            ("loops", LOOPS, "1s", 1, ""),
            ("eats", EATS_MEMORY, "20s", 0, "exceeded the memory limit of 16 MiB"),
            ("traps", TRAPS, "20s", 0, "plugin_create_container trapped: "),
        ] {
            let node = Node::new(runtime);
            node.configure(&format!(
                "plugin = [{{ match = '10-bad', timeout = '{timeout}', restart_backoff = '10ms', \
                 wasm_memory = 16 }}]\n"
            ));
            install(&node.path("plugins/10-bad"), &module(instructions));
            let journal = node.launch("20-good", &Program::Adjust, GOOD);
            node.ctl(&["start"]).success();
            check_created(&node, "first");
            let log = node.log();
            assert_eq!(log.matches("timeouts=").count(), timeouts, "{name}: {log}");
            assert_eq!(log.matches("plugin skipped").count(), 1, "{name}: {log}");
            assert!(log.contains(last_line), "{name}: {log}");
            wait_until("the module to be launched again", || (active(&node) == 2).then_some(()));
            assert_eq!(hosts(&node), 1, "{name}");
            // Removed, it is asked no more.
            fs::remove_file(node.path("plugins/10-bad")).unwrap();
            node.ctl(&["reload"]).success();
            check_created(&node, "second");
            let log = node.log();
            assert_eq!(log.matches("plugin skipped").count(), 1, "{name}: {log}");
            assert_eq!(hosts(&node), 0, "{name}");
            journal.wait_for("PostStartContainer", &node.id("second"));
            // The process of the container may have ended since.
            let events = journal.events(&node.id("first"));
            assert!(events.iter().map(String::as_str).take(TO_START.len()).eq(TO_START), "{name}");
        }
    });
}

#[test]
fn a_module_that_loops_ends_by_itself_where_timeouts_do_not_close_the_connection() {
    for_each_runtime("wasm, own limit", |runtime| {
        let node = Node::new(runtime);
        node.configure(
            "plugin = [{ match = '10-bad', timeout = '500ms', consecutive_timeouts = 0, \
             restart_backoff = '10ms' }]\n",
        );
        install(&node.path("plugins/10-bad"), &module(LOOPS));
        node.launch("20-good", &Program::Adjust, GOOD);
        node.ctl(&["start"]).success();
        check_created(&node, "first");
        wait_until("the module to be launched again", || (active(&node) == 2).then_some(()));
        let log = node.log();
        assert_eq!(log.matches("timeouts=").count(), 1, "{log}");
        assert!(log.contains("plugin_create_container did not return within 700ms"), "{log}");
        assert_eq!(hosts(&node), 1);
    });
}

#[test]
fn an_invalid_module_is_reported_and_containers_are_created_without_it() {
    for_each_runtime("wasm, invalid", |runtime| {
        let node = Node::new(runtime);
        node.configure("plugin = [{ match = '*', restart = 'never' }]\n");
        install(&node.path("plugins/10-bad"), b"\0asm\x01\0\0\0 and nothing that is a section");
        let no_export = wat::parse_str("(module (memory (export \"memory\") 1))").unwrap();
        install(&node.path("plugins/11-empty"), &no_export);
        node.launch("20-good", &Program::Adjust, GOOD);
        node.ctl(&["start"]).success();
        check_created(&node, "c");
        let log = node.log();
        for line in ["nri-wasm-host: invalid module: ", "does not export malloc"] {
            assert!(log.contains(line), "{line}: {log}");
        }
        let status = node.status().unwrap();
        let plugins = status["plugins"].as_array().unwrap();
        let closed: Vec<_> = plugins.iter().filter(|p| p["state"] == "closed").collect();
        assert_eq!(closed.len(), 2, "{status}");
        let why = [
            ("10-bad: not active: ", "nri-wasm-host: invalid module: "),
            ("11-empty: not active: ", "does not export malloc"),
        ];
        let found = findings(&node, "plugin-not-active");
        assert_eq!(found.len(), 2, "{found:?}");
        for (found, (begin, reason)) in found.iter().zip(why) {
            assert!(found.starts_with(begin) && found.contains(reason), "{found}");
        }
        assert_eq!(hosts(&node), 0);
    });
}

/// Returns the texts of the findings of `nrictl doctor` with a code.
fn findings(node: &Node, code: &str) -> Vec<String> {
    let report: Value = serde_json::from_str(&node.ctl(&["doctor", "--json"]).out()).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let texts = findings.filter(|f| f["code"] == code).map(|f| f["text"].as_str().unwrap());
    texts.map(str::to_owned).collect()
}

#[test]
fn doctor_names_a_module_whose_host_program_is_not_installed() {
    if Path::new("/usr/libexec/nri-container-runtime/nri-wasm-host").exists() {
        return limitation("wasm, no host", "nri-wasm-host is installed on this machine");
    }
    for_each_runtime("wasm, no host", |runtime| {
        let node = Node::with_programs(runtime, &program_dir());
        let host = node.program("nri-wasm-host");
        fs::remove_file(&host).unwrap();
        install(&node.path("plugins/10-module"), &module(RETURNS_NOTHING));
        node.launch("20-good", &Program::Adjust, GOOD);
        node.ctl(&["start"]).success();
        let why = "10-module: not launched: webassembly plugin, and nri-wasm-host is not installed";
        assert_eq!(findings(&node, "plugin-unusable"), [why]);
        check_created(&node, "c");
        copy_program(&program_dir().join("nri-wasm-host"), &host);
        node.ctl(&["reload"]).success();
        assert!(findings(&node, "plugin-unusable").is_empty());
        let active = findings(&node, "plugin-active");
        assert!(active.iter().any(|text| text.starts_with("10-module")), "{active:?}");
    });
}

#[test]
fn the_host_of_a_module_that_is_pinned_by_digest_gets_the_copy() {
    for_each_runtime("wasm, pinned", |runtime| {
        let node = Node::new(runtime);
        let file = node.path("plugins/10-module");
        install(&file, &module(RETURNS_NOTHING));
        let pin = |file: &Path| {
            let sum = std::process::Command::new("sha256sum").arg(file).output().unwrap().stdout;
            let sum = String::from_utf8(sum).unwrap();
            let digest = sum.split(' ').next().unwrap();
            node.configure(&format!(
                "plugin = [{{ match = '10-module', required = true, digest = 'sha256:{digest}', \
                 capabilities = [] }}]\n"
            ));
        };
        pin(&file);
        node.launch("20-good", &Program::Adjust, GOOD);
        node.ctl(&["start"]).success();
        check_created(&node, "first");
        let status = node.status().unwrap();
        let pid = &status["plugins"][0]["pid"];
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(line.ends_with(b"\0/proc/self/fd/4\0"), "{line:?}");

        install(&file, &module(TRAPS));
        pin(Path::new("/dev/null"));
        let why = "program has another digest than its policy";
        assert!(node.ctl(&["reload"]).out().contains(why));
        let id = node.id("second");
        let refused = node.create(&node.bundle(&id).make(), &id).refusal();
        assert!(refused.contains("10-module"), "{refused}");
    });
}

#[test]
fn a_dry_run_asks_modules() {
    let guests = wasm_guests("wasm, dry run");
    for_each_runtime("wasm, dry run", |runtime| {
        for (variable, guest) in &guests {
            let node = Node::new(runtime);
            node.configure(&format!(
                "plugin_registration_timeout = '60s'\nruntime.path = {:?}\n\
                 plugin = [{{ match = '*', dry_run = true }}]\n",
                runtime.path
            ));
            install(&node.path("plugins/10-guest"), &fs::read(guest).unwrap());
            fs::write(node.path("conf.d/10-guest.conf"), "from a module").unwrap();
            let bundle = node.bundle(&node.id("c")).make();
            let dir = bundle.dir().to_str().unwrap();
            let ended = node.ctl(&["dry-run", "--json", "--bundle", dir]);
            let found: Value = serde_json::from_str(&ended.out()).unwrap();
            assert_eq!(ended.code, Some(0), "{found:#}");
            assert_eq!(found["plugins"][0]["answer"], "asked", "{found:#}");
            let changes = found["changes"].as_array().unwrap();
            let field = format!("env[{variable}]");
            let change = changes.iter().find(|change| change["field"] == field);
            assert_eq!(change.unwrap()["after"], "from a module", "{found:#}");
            assert_eq!(hosts(&node), 0);
        }
    });
}

#[test]
fn modules_compiled_from_go_and_rust_adjust_containers_and_get_all_events() {
    let guests = wasm_guests("wasm guests");
    for_each_runtime("wasm guests", |runtime| {
        for (variable, guest) in &guests {
            let node = Node::new(runtime);
            // As a new installation, but a host in a debug build takes seconds to begin.
            node.configure(
                "plugin_registration_timeout = '60s'\n\
                 plugin = [{ match = '*', capabilities = [], no_new_privs = true, \
                 wasm_memory = 64 }]\n",
            );
            install(&node.path("plugins/10-guest"), &fs::read(guest).unwrap());
            fs::write(node.path("conf.d/10-guest.conf"), "from a module").unwrap();
            let id = node.id("c");
            let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
            let created = node.create(&bundle, &id).success();
            node.call(&["start", &id]).success();
            wait_until("the probe", || created.out().contains("ready=1").then_some(()));
            let report = Report::parse(&created.out());
            report.check(&[(&format!("env.{variable}"), "from a module")]);
            node.call(&["kill", &id, "KILL"]).success();
            node.call(&["delete", "--force", &id]).success();
            if *variable == "GO_WASM" {
                let logged =
                    |event: &str| node.log().contains(&format!(" WARN 10-guest: {event} {id}"));
                wait_until("the last event", || logged("RemovePodSandbox").then_some(()));
                for event in TO_START.iter().chain(&FROM_STOP) {
                    assert!(logged(event), "{event} was not logged: {}", node.log());
                }
                let id = node.id("refused");
                let bundle = node.bundle(&id).annotation("refuse.example.org=yes").make();
                let line = node.create(&bundle, &id).refusal();
                assert!(line.contains("10-guest") && line.contains("not today"), "{line}");
            }
            let status = node.status().unwrap();
            assert_eq!(status["plugins"][0]["state"], json!("active"), "{status}");
        }
    });
}
