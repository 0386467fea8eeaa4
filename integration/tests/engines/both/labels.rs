//! Tests of labels that are annotations by configuration.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

test_both! {
    chosen_labels_are_annotations_of_pod_and_container,
    a_plugin_of_upstream_obeys_labels,
}

/// Whether the suite's engine keeps labels where `nrid` does not read them: in a BoltDB.
pub(super) fn hides_labels<E: Engine>(suite: &Suite) -> bool {
    E::PROGRAM == "podman" && suite.version("podman") < (4, 8)
}

fn chosen_labels_are_annotations_of_pod_and_container<E: Engine>() {
    for_each::<E>("labels as annotations", |suite, go_plugin| {
        let engine = E::start(suite);
        engine
            .configure("pods.annotations_from_labels = ['example.org/', 'com.docker.compose.']\n");
        let adjusted = Adjusted::with(engine, go_plugin, &json!({}));
        let labels = ["example.org/a=b", "com.docker.compose.service=web", "other=c"];
        let labels = labels.map(|label| format!("--label={label}"));
        let options: Vec<_> = labels.iter().map(String::as_str).chain(["--network=none"]).collect();
        let id = adjusted.engine.run_detached("web", &[&options, &[IMAGE][..], &WAIT].concat());
        let requested = adjusted.plugin.journal.wait_for("CreateContainer", &id);
        let log = adjusted.engine.log();
        let warnings = log.matches("labels are incomplete").count();
        for message in ["pod", "container"] {
            let annotation = |key: &str| requested[message]["annotations"][key].clone();
            assert_eq!(annotation("other"), Value::Null);
            if hides_labels::<E>(suite) {
                assert_eq!((annotation("example.org/a"), warnings), (Value::Null, 1), "{log}");
                continue;
            }
            assert_eq!(annotation("example.org/a"), "b", "{requested}");
            assert_eq!(annotation("com.docker.compose.service"), "web");
            assert_eq!(requested[message]["labels"]["other"], "c");
            assert_eq!(warnings, 0, "{log}");
        }
    });
}

fn a_plugin_of_upstream_obeys_labels<E: Engine>() {
    let name = "labels, sample plugin";
    let Some(dir) = samples(name) else { return };
    for_each_suite(name, E::PROGRAM, |suite| {
        if hides_labels::<E>(suite) {
            return limitation(name, "the labels of this Podman are in a BoltDB");
        }
        let engine = E::start(suite);
        engine.configure("pods.annotations_from_labels = ['devices.noderesource.dev/']\n");
        let plugin = engine.path("plugins/10-device-injector");
        symlink(dir.join("device-injector"), plugin).unwrap();
        let device = "- path: /dev/sample\n  type: c\n  major: 1\n  minor: 3\n";
        let label = format!("--label=devices.noderesource.dev/container.web={device}");
        for (name, found) in [("web", "/dev/sample\n"), ("db", "none\n")] {
            let script = "ls /dev/sample 2>/dev/null || echo none";
            let ended =
                engine.run_with("nri", &["--name", name, &label, IMAGE, "sh", "-c", script]);
            assert_eq!(ended.success().out(), found, "{name}: {}", engine.log());
        }
    });
}
