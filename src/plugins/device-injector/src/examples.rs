//! Tests the annotations that documents and samples show.

use crate::plugin::{DeviceInjector, KINDS};
use nri_plugin::testing::{InProcessRuntime, container, pod};
use std::{fs, path::Path};

/// Documents of the repository with examples: folders, and the end of their names.
const DOCUMENTS: [(&str, &str); 5] = [
    ("../../../docs", ".md"),
    ("../../../docs/reference", ".md"),
    ("../../..", "README.md"),
    (".", "README.md"),
    (".", "sample.yaml"),
];

/// Returns the annotations in a text: `'KEY=VALUE'` of a command line, and `KEY: |` with the lines
/// below it that are indented more.
fn annotations(text: &str) -> Vec<(String, String)> {
    let is_key = |key: &str| {
        KINDS.iter().flat_map(|(_, keys, _)| *keys).any(|known| {
            key == *known || key.strip_prefix(known).is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let mut found = Vec::new();
    for word in text.split('\'').skip(1) {
        if let Some((key, value)) = word.split_once('=').filter(|(key, _)| is_key(key)) {
            found.push((key.to_owned(), value.to_owned()));
        }
    }
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<_> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        if let Some(key) = line.trim().strip_suffix(": |").filter(|key| is_key(key)) {
            let value = lines[number + 1..].iter().take_while(|l| indent(l) > indent(line));
            let value: String = value.map(|line| format!("{line}\n")).collect();
            found.push((key.to_owned(), value));
        }
    }
    found
}

#[test]
fn the_examples_of_documents_inject_what_a_runtime_can_create() {
    let runtime = InProcessRuntime::start(DeviceInjector, "").unwrap();
    let mut tested = Vec::new();
    for (folder, end) in DOCUMENTS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path();
            if !file.to_string_lossy().ends_with(end) {
                continue;
            }
            for (key, value) in annotations(&fs::read_to_string(&file).unwrap()) {
                let about = format!("{}: {key}: {value}", file.display());
                let name = key.split_once("/container.").map_or("web", |(_, name)| name);
                let mut pod = pod("shop");
                pod.annotations.insert(key.clone(), value.clone());
                let reply = runtime.create_container(&pod, &container(&pod, name));
                let adjust = reply.unwrap_or_else(|error| panic!("{about}: {error}")).adjust;
                for device in &adjust.linux.devices {
                    let has_numbers = (device.major, device.minor) != (0, 0);
                    assert!(matches!(&*device.type_, "c" | "b" | "u") && has_numbers, "{about}");
                }
                tested.push(key);
            }
        }
    }
    for kind in ["devices", "mounts", "sysctl"] {
        let is_tested = tested.iter().any(|key| key.starts_with(&format!("{kind}.noderesource")));
        assert!(is_tested, "no example of {kind}: {tested:?}");
    }
    assert!(tested.len() >= 6, "{tested:?}");
}
