//! Upstream's sample plugins on Docker and Podman, with the privileges of a new installation.

use super::labels::hides_labels;
use crate::adjusted::*;
use nri_integration::{engines::*, *};
use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
};

test_both! {
    sample_plugins_of_upstream_work_together,
}

/// The plugins that `nrid` launches, with their arguments, in the order of their indices. Reading
/// the mounts of process 1 needs a capability, so `writable-cgroups` reads its own. `hook-injector`
/// creates the directories that it watches, and Podman fails for users who cannot read them.
const LAUNCHED: [(&str, &str); 10] = [
    ("logger", ""),
    ("template", ""),
    ("network-logger", ""),
    ("device-injector", ""),
    ("ulimit-adjuster", ""),
    ("hook-injector", "-disableWatch"),
    ("rdt", ""),
    ("v010-adapter", ""),
    ("writable-cgroups", "-verbose -host-mount-file /proc/self/mountinfo"),
    ("wasm", ""),
];

/// Labels of the container `web`, which are annotations by configuration.
const LABELS: [&str; 4] = [
    "devices.noderesource.dev/container.web=- path: /dev/sample\n  type: c\n  major: 1\n  \
     minor: 3\n",
    "mounts.noderesource.dev/container.web=- source: /proc/version\n  destination: /sample\n  \
     type: bind\n  options: [bind, ro]\n",
    "ulimits.noderesource.dev/container.web=- type: RLIMIT_CORE\n  hard: 4096\n  soft: 1024\n",
    "writable-cgroups.noderesource.dev/pod=true",
];

/// Prints what the plugins have changed.
const SCRIPT: &str = "ls /dev/sample; head -c 6 /sample; grep core /proc/self/limits";

/// Writes the files of the host that the samples read: a hook, a v0.1 program and its list.
fn files<E: Engine>(engine: &E) -> [HostFile; 3] {
    let hook = serde_json::json!({
        "version": "1.0.0",
        "hook": {
            "path": "/bin/sh",
            "args": ["sh", "-c", format!("echo hook >>'{}'", engine.path("hook").display())]
        },
        "when": {"commands": ["^/bin/sh$"], "annotations": {"^writable-cgroups": "^true$"}},
        "stages": ["createRuntime"]
    });
    let program =
        format!("#!/bin/sh\n/bin/cat >>'{}'\necho '{{}}'\n", engine.path("called").display());
    let list = r#"{"version": "0.1", "plugins": [{"type": "nri-sample-engines"}]}"#;
    [
        HostFile::new("/etc/containers/oci/hooks.d/nri-sample-engines.json", &hook.to_string()),
        HostFile::program("/opt/nri/bin/nri-sample-engines", &program),
        HostFile::new("/etc/nri/conf.json", list),
    ]
}

/// The plugin `differ`, which connects by itself, before and after the other plugins. Dropping this
/// value kills it.
struct Differ(Child);

impl Differ {
    fn start<E: Engine>(engine: &E, dir: &Path) -> Self {
        let mut command = Command::new(dir.join("differ"));
        command.args(["-indices", "05,95", "-yaml", "-socket-path"]);
        command.arg(engine.state_dir().join("nri.sock"));
        let out = File::create(engine.path("differ")).unwrap();
        command.stdin(Stdio::null()).stderr(out.try_clone().unwrap()).stdout(out);
        let new = Self(command.spawn().unwrap());
        wait_until("both sessions of differ", || {
            let status = engine.status()?;
            let plugins = status["plugins"].as_array()?.iter();
            let is_active = |p: &&serde_json::Value| {
                p["name"].as_str().is_some_and(|name| name.contains("differ"))
                    && p["state"] == "active"
            };
            (plugins.filter(is_active).count() == 2).then_some(())
        });
        new
    }
}

impl Drop for Differ {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sample_plugins_of_upstream_work_together<E: Engine>() {
    // The files of the host are those of one test at a time.
    static FILES: Mutex<()> = Mutex::new(());
    let _files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let name = "sample plugins";
    let Some(dir) = samples(name) else { return };
    for_each_suite(name, E::PROGRAM, |suite| {
        if hides_labels::<E>(suite) {
            return limitation(name, "the labels of this Podman are in a BoltDB");
        }
        let engine = E::start(suite);
        engine.configure(
            "plugin = [{ match = '*', capabilities = [], no_new_privs = true }]\n\
             pods.annotations_from_labels = ['']\n",
        );
        for (index, (program, arguments)) in LAUNCHED.iter().enumerate() {
            let file = engine.path("plugins").join(format!("{}-{program}", index + 10));
            let program = dir.join(program);
            if program.ends_with("wasm") {
                copy_program(&program, &file); // a module, which no script can execute
                continue;
            }
            let script = format!("#!/bin/sh\nexec '{}' {arguments}\n", program.display());
            write_program(&file, &script);
        }
        let _host_files = files(&engine);
        engine.ctl(&["start"]).success();
        let _differ = Differ::start(&engine, &dir);

        let labels = LABELS.map(|label| format!("--label={label}"));
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        let run = |runtime: &str, script: &str| {
            let arguments = [&["--name=web"], &labels[..], &[IMAGE, "/bin/sh", "-c", script]];
            engine.run_with(runtime, &arguments.concat()).success().out()
        };
        // Podman reads the hooks by itself, too.
        let hooks = || fs::read_to_string(engine.path("hook")).unwrap_or_default().lines().count();
        run(engine.runtime().name, "true");
        let own = hooks();
        let out = run("nri", SCRIPT);
        assert_eq!(hooks(), own * 2 + 1, "{}", engine.log());
        let words: Vec<_> = out.split_whitespace().collect();
        let limit = ["Max", "core", "file", "size", "1024", "4096", "bytes"];
        assert_eq!(words, [&["/dev/sample", "Linux"], &limit[..]].concat(), "{}", engine.log());
        let called = fs::read_to_string(engine.path("called")).unwrap();
        assert!(called.contains("create"), "{called}");
        let printed = |name: &str, text: &str| {
            wait_until(format_args!("{name} to print {text:?}"), || {
                engine.log().lines().any(|l| l.contains(name) && l.contains(text)).then_some(())
            });
        };
        printed("10-logger", "RemoveContainer");
        printed("11-template", "web");
        printed("12-network-logger", "Removed pod");
        printed("18-writable-cgroups", "nsdelegate");
        printed("19-wasm", "Got remove pod sandbox request");
        let difference = fs::read_to_string(engine.path("differ")).unwrap();
        for text in ["/dev/sample", "RLIMIT_CORE"] {
            assert!(difference.contains(text), "{difference}");
        }

        let class = "--label=closid.rdt.noderesource.dev/container.db=sample";
        let ended = engine.run_with("nri", &["--name=db", class, IMAGE, "true"]);
        if !Path::new("/sys/fs/resctrl/schemata").exists() {
            assert!(ended.err().contains("16-rdt"), "{}", ended.err());
        }
        let status = engine.status().unwrap();
        let plugins = status["plugins"].as_array().unwrap();
        assert_eq!(plugins.len(), LAUNCHED.len() + 2, "{status}");
        for plugin in plugins {
            assert_eq!((&plugin["state"], &plugin["restarts"]), (&"active".into(), &0.into()));
        }
    });
}
