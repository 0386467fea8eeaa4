//! Tests of `nrictl dry-run`, which runs `nrid --dry-run` beside a running `nrid`. They need root,
//! since instances of plugins are launched in namespaces of their own.

use crate::{
    containers::{Sleep, create_and_start},
    create::bundle_with,
    node::{Node, example, wait_until},
    views::nrictl,
};
use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Policies of the plugins that may be asked.
const POLICIES: &str = "plugin_registration_timeout = '2s'\nplugin_request_timeout = '2s'\n\
    [runtime]\npath = '/bin/false'\n\
    [[plugin]]\nmatch = 'asked'\ndry_run = true\n";

fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can create the namespaces of instances");
    }
    is_root
}

/// Adds the example plugin `adjust` with these rules.
fn adjust(node: &Node, name: &str, rules: &str) {
    symlink(example("adjust"), node.plugins().join(name)).unwrap();
    fs::write(node.path("conf.d").join(format!("{name}.conf")), rules).unwrap();
}

/// Adds a plugin that is a shell script.
fn script(node: &Node, name: &str, text: &str) {
    let draft = node.path("script");
    fs::write(&draft, format!("#!/bin/sh\n{text}\n")).unwrap();
    // By another process: a child that another test forks meanwhile would keep the file open for
    // writing, and executing it would fail (ETXTBSY).
    let file = node.plugins().join(name);
    let installed = Command::new("install").args(["-m", "755"]).arg(draft).arg(file).status();
    assert!(installed.unwrap().success());
}

/// Returns the exit code and the JSON of a dry run.
fn dry_run(node: &Node, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = nrictl(node, &[&["dry-run", "--json"], arguments].concat());
    let found = serde_json::from_slice(&output.stdout);
    (output.status.code(), found.unwrap_or_else(|e| panic!("{e}: {output:?}")))
}

/// Returns the plugins, each with its answer and the reason for it.
fn answers(found: &Value) -> Vec<(&str, &str, &str)> {
    let plugins = found["plugins"].as_array().unwrap();
    plugins
        .iter()
        .map(|plugin| {
            let member = |name: &str| plugin[name].as_str().unwrap_or_default();
            (member("name"), member("answer"), member("reason"))
        })
        .collect()
}

/// Returns the regular files below `dir`, with what changes if they are written or replaced.
/// Directories are left out: `nrid` creates and removes files in them to reply to a status request.
/// So is the file whose time is the last sign of life.
fn files(dir: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, String)> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                dirs.push(path);
            } else if meta.is_file() && !path.ends_with("nrid.life") {
                let content = fs::read_to_string(&path).unwrap();
                found.insert(path, (meta.ino(), meta.mtime(), meta.mtime_nsec(), content));
            }
        }
    }
    found
}

/// Waits until a process has ended.
fn wait_for_end(pid: i32) {
    // A zombie that its new parent has not reaped yet still has its number.
    wait_until("the end of the processes", || {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_zombie = state.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z"));
        let is_gone = test_kill_process(Pid::from_raw(pid).unwrap()).is_err();
        (is_gone || is_zombie).then_some(())
    });
}

#[test]
fn a_dry_run_shows_what_plugins_would_change_and_changes_nothing() {
    if !is_root() {
        return;
    }
    let node = Node::new(POLICIES);
    adjust(&node, "10-asked", "[create]\nenv = { set = { NAME = 'value' } }\n");
    adjust(&node, "20-other", "[create]\nenv = { set = { OTHER = 'value' } }\n");
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "web-1", &process).unwrap();
    let audit = node.state_dir().join("audit.log");
    let has_start = || fs::read_to_string(&audit).ok().filter(|log| log.contains("\"started\""));
    wait_until("the audit log", has_start);
    let dir = bundle_with(&node, "next", r#"{"ociVersion":"1.0.2","process":{"env":["A=b"]}}"#);
    let pids = |node: &Node| node.status().plugins.into_iter().map(|p| p.pid).collect::<Vec<_>>();
    let (state, bundles, plugins) =
        (files(&node.state_dir()), files(&node.path("bundles")), pids(&node));
    let bundle = files(&dir);

    let (code, found) = dry_run(&node, &["--bundle", dir.to_str().unwrap(), "--id", "web-2"]);
    assert_eq!(code, Some(0), "{found:#}");
    assert_eq!((&found["id"], &found["runtime"]), (&json!("web-2"), &json!("/bin/false")));
    assert_eq!(
        answers(&found),
        [
            ("10-asked", "asked", ""),
            ("20-other", "not_asked", "its policy does not have `dry_run = true`"),
        ]
    );
    let change = json!({
        "plugin": "10-asked", "field": "env[NAME]", "path": "/process/env/-",
        "before": null, "after": "value"
    });
    assert_eq!(found["changes"], json!([change]));
    assert_eq!(found["config"]["process"]["env"], json!(["A=b", "NAME=value"]));
    let diff = found["diff"].as_str().unwrap();
    assert!(diff.starts_with("--- config.json\n+++ config.json (adjusted)\n@@ "), "{diff}");
    assert!(diff.contains("\n+      \"NAME=value\"\n"), "{diff}");

    // The container has the changes of both plugins; the question is about the engine's file.
    let (code, found) = dry_run(&node, &["--container", "web"]);
    assert_eq!(code, Some(0), "{found:#}");
    assert_eq!(found["id"], "web-1");
    assert_eq!(found["config"]["process"]["env"], json!(["NAME=value"]));
    let text = String::from_utf8(nrictl(&node, &["dry-run", "--container", "web-1"]).stdout);
    let text = text.unwrap();
    assert!(text.contains("10-asked  asked\n") && text.contains("NAME=value"), "{text}");

    assert_eq!(files(&node.state_dir()), state);
    assert_eq!(files(&node.path("bundles")), bundles);
    assert_eq!(files(&dir), bundle);
    assert_eq!(pids(&node), plugins);
    let output = nrictl(&node, &["dry-run", "--container", "unknown"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr,
        "nrictl: dry run: no container \"unknown\" is known; `nrictl containers --all` lists them\n"
    );
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn a_cdi_device_whose_edits_change_nothing_is_shown() {
    if !is_root() {
        return;
    }
    let node = Node::new("");
    let specs = node.path("cdi");
    node.configure(&format!("{POLICIES}[cdi]\nspec_dirs = [{specs:?}]\n"));
    fs::create_dir(&specs).unwrap();
    let device = json!({"name": "0", "containerEdits": {"env": ["A=b"]}});
    let spec = json!({"cdiVersion": "0.6.0", "kind": "v.example/c", "devices": [device]});
    fs::write(specs.join("v.json"), spec.to_string()).unwrap();
    adjust(&node, "10-asked", "[create]\ncdi_devices = ['v.example/c=0']\n");
    let dir = bundle_with(&node, "next", r#"{"ociVersion":"1.0.2","process":{"env":["A=b"]}}"#);
    let (code, found) = dry_run(&node, &["--bundle", dir.to_str().unwrap(), "--id", "web"]);
    assert_eq!(code, Some(0), "{found:#}");
    let changes = found["changes"].as_array().unwrap();
    let named = |change: &Value| (change["plugin"].clone(), change["field"].clone());
    let expected = (json!("10-asked"), json!("cdi_devices[v.example/c=0]"));
    assert_eq!(changes.iter().map(named).collect::<Vec<_>>(), [expected]);
    assert_eq!(found["config"]["process"]["env"], json!(["A=b"]));
}

#[test]
fn an_instance_has_no_capability_no_network_and_a_read_only_sys() {
    if !is_root() {
        return;
    }
    let node = Node::new(POLICIES);
    // A policy with capabilities: a dry run gives none of them.
    let config = fs::read_to_string(node.config()).unwrap();
    fs::write(node.config(), config + "capabilities = ['sys_admin']\n").unwrap();
    let adjust = example("adjust");
    let facts = format!(
        "/bin/grep -E '^(Cap|NoNewPrivs)' /proc/self/status\n\
         while read line; do echo \"device $line\"; done </proc/net/dev\n\
         /bin/mkdir /sys/fs/cgroup/nri-dry-run && /bin/rmdir /sys/fs/cgroup/nri-dry-run\n\
         while read a b c d point options rest; do\n\
           case $point in /sys|/sys/*) echo \"mount $point $options\" ;; esac\n\
         done </proc/self/mountinfo\n\
         exec {}",
        adjust.display()
    );
    script(&node, "10-asked", &facts);
    let dir = bundle_with(&node, "web", r#"{"ociVersion":"1.0.2"}"#);
    // No nrid runs.
    let (code, found) = dry_run(&node, &["--bundle", dir.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{found:#}");
    assert_eq!(found["id"], "web");
    let output = found["plugins"][0]["output"].as_array().unwrap();
    let lines = |prefix: &str| -> Vec<&str> {
        let lines = output.iter().filter_map(Value::as_str);
        lines.filter(|line| line.starts_with(prefix)).collect()
    };
    let sets = lines("Cap");
    assert_eq!(sets.len(), 5, "{output:#?}");
    assert!(sets.iter().all(|set| set.ends_with(":\t0000000000000000")), "{sets:?}");
    assert_eq!(lines("NoNewPrivs"), ["NoNewPrivs:\t1"]);
    let devices: Vec<_> = lines("device").into_iter().filter(|line| line.contains(':')).collect();
    assert!(
        devices.len() <= 1 && devices.iter().all(|d| d.starts_with("device lo:")),
        "{devices:?}"
    );
    let mounts = lines("mount");
    assert!(!mounts.is_empty(), "{output:#?}");
    let is_read_only = |mount: &&str| {
        let options = mount.rsplit(' ').next().unwrap_or_default();
        options.split(',').any(|option| option == "ro")
    };
    assert!(mounts.iter().all(is_read_only), "{mounts:#?}");
    assert!(!lines("/bin/mkdir:").is_empty() || !lines("mkdir:").is_empty(), "{output:#?}");
    assert!(!Path::new("/sys/fs/cgroup/nri-dry-run").exists());
    assert_eq!(fs::read_dir(node.state_dir()).unwrap().count(), 0);
}

#[test]
fn refusals_are_shown_and_plugins_that_hang_are_ended_with_their_children() {
    if !is_root() {
        return;
    }
    let node = Node::new(POLICIES);
    adjust(&node, "10-asked", "[create]\nargs = ['first']\n");
    adjust(&node, "20-asked", "[create]\nargs = ['second']\n");
    let dir = bundle_with(&node, "web", r#"{"ociVersion":"1.0.2","process":{"args":["sh"]}}"#);
    let bundle = ["--bundle", dir.to_str().unwrap()];
    let (code, found) = dry_run(&node, &bundle);
    assert_eq!(code, Some(4), "{found:#}");
    let refusal = found["refusal"].as_str().unwrap();
    assert!(refusal.contains("both tried to set") && refusal.contains("20-asked"), "{refusal}");
    assert_eq!((&found["config"], &found["diff"]), (&Value::Null, &json!("")));
    let text = String::from_utf8(nrictl(&node, &[&["dry-run"], &bundle[..]].concat()).stdout);
    assert!(text.as_ref().unwrap().contains("\nthe creation would be refused: "), "{text:?}");

    fs::remove_file(node.plugins().join("20-asked")).unwrap();
    // A plugin that does not register, ignores SIGTERM, and has a child in another session.
    let pids = node.path("pids");
    let text = format!(
        "trap '' TERM\n/usr/bin/setsid sh -c 'echo $$ >{0}; exec /bin/sleep 1000' &\n\
         echo $$ >>{0}.own\necho waiting\nwhile :; do /bin/sleep 1000; done",
        pids.display()
    );
    script(&node, "30-asked", &text);
    let (code, found) = dry_run(&node, &bundle);
    assert_eq!(code, Some(4), "{found:#}");
    assert_eq!(found["refusal"], Value::Null);
    let failed = &found["plugins"][1];
    assert_eq!((&failed["name"], &failed["answer"]), (&json!("30-asked"), &json!("failed")));
    assert_eq!(failed["reason"], "did not register within 2s");
    assert_eq!(failed["output"], json!(["waiting"]));
    assert_eq!(found["config"]["process"]["args"], json!(["first"]));
    for file in [pids.clone(), pids.with_extension("own")] {
        let pid: i32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        wait_for_end(pid);
    }
}

#[test]
fn plugins_that_are_not_asked_do_not_make_the_answer_a_refusal() {
    if !is_root() {
        return;
    }
    let required = "[[plugin]]\nmatch = 'other'\nrequired = true\n\
        [default_validator]\nenable = true\nrequired_plugins = ['other']\n";
    let node = Node::new(&format!("{POLICIES}{required}"));
    adjust(&node, "10-asked", "[create]\noom_score_adj = 7\n");
    adjust(&node, "20-other", "");
    let dir = bundle_with(&node, "web", r#"{"ociVersion":"1.0.2"}"#);
    let (code, found) = dry_run(&node, &["--bundle", dir.to_str().unwrap()]);
    assert_eq!((code, &found["refusal"]), (Some(0), &Value::Null), "{found:#}");
    assert_eq!(found["config"]["process"]["oomScoreAdj"], 7);
    assert_eq!(answers(&found)[1].1, "not_asked");
}

/// As by Ctrl+C, which the terminal sends to `nrictl` and to the `nrid` that it runs.
#[test]
fn a_dry_run_that_is_interrupted_leaves_no_process() {
    if !is_root() {
        return;
    }
    let node =
        Node::new("plugin_registration_timeout = '10m'\n[[plugin]]\nmatch = '*'\ndry_run = true\n");
    let own = node.path("pid");
    script(&node, "10-hangs", &format!("echo $$ >{}\nexec /bin/sleep 1000", own.display()));
    let dir = bundle_with(&node, "web", r#"{"ociVersion":"1.0.2"}"#);
    let mut command = Command::new(env!("CARGO_BIN_EXE_nrid"));
    command.arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
    command.arg("--dry-run").arg("--bundle").arg(&dir);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let read = || fs::read_to_string(&own).ok()?.trim().parse().ok();
    let pid: i32 = wait_until("the plugin", read);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(error, "nrid: ended by a signal\n");
    wait_for_end(pid);
}
