//! Pods, and a program of NRI v0.1, of the plugin `v010-adapter`.

use crate::{
    pods::{self, Case},
    random::Random,
};
use nri_api::{opt, proto::*};
use serde_json::Value;
use std::{os::unix::fs::PermissionsExt, path::Path};

/// Configuration: the program is called twice, so that the second call has the result of the first.
const CONFIGURATION: &str = r#"{"version": "0.1", "plugins": [
    {"type": "nri-record", "conf": {"a": [1, 2.50], "b": "<c>"}}, {"type": "nri-record"}]}"#;

/// Writes the configuration and the program below a directory, beside which the program records the
/// requests. It reports an error for some containers, and writes no result for others.
pub(crate) fn write(root: &Path) {
    let program = root.join("opt/nri/bin/nri-record");
    for dir in ["etc/nri", "opt/nri/bin"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    std::fs::write(root.join("etc/nri/conf.json"), CONFIGURATION).unwrap();
    let text = format!(
        r#"#!/bin/sh
[ "$1" = invoke ] || exit 1
request=$(cat)
printf '%s\n' "$request" >>'{}'
case $request in
  *'"note":"refused"'*) echo '{{"plugin": "record", "error": "not here"}}' ;;
  *'"note":"silent"'*) exit 3 ;;
  *'"note":"failed"'*) echo '{{"plugin": "record"}}'; exit 3 ;;
  *) echo '{{"plugin": "record", "version": "0.1", "error": "", "metadata": {{"a": "b"}}}}' ;;
esac
"#,
        requests(root).display()
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn requests(root: &Path) -> std::path::PathBuf {
    root.with_extension("requests")
}

/// Returns the requests that the program has received.
pub(crate) fn received(root: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(requests(root)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns a pod and a container with resources, namespaces and cgroups.
pub(crate) fn any(random: &mut Random) -> Case {
    let mut case = pods::any(random);
    for annotations in [&mut case.pod.annotations, &mut case.container.annotations] {
        let notes = ["refused", "silent", "failed", "fine", "fine", "<&>", "\u{e4}"];
        if random.one_in(3) {
            annotations.insert("note".to_owned(), random.pick(&notes).to_string());
        }
    }
    if random.one_in(3) {
        case.pod.labels.clear();
    }
    case.pod.pid = *random.pick(&[0, 7]);
    case.container.pid = *random.pick(&[0, 4711]);
    let linux = case.container.linux.mut_or_insert_default();
    linux.cgroups_path = random.pick(&["", "/kubepods/c", "a.slice:cri:c"]).to_string();
    let kinds = ["pid", "network", "mount"];
    for kind in &kinds[..random.below(4)] {
        let path = random.pick(&["", "/proc/44/ns/x"]).to_string();
        let namespace = LinuxNamespace { type_: kind.to_string(), path, ..Default::default() };
        linux.namespaces.push(namespace);
    }
    if random.one_in(4) {
        linux.resources.take();
        return case;
    }
    let resources = linux.resources.mut_or_insert_default();
    let memory = resources.memory.mut_or_insert_default();
    memory.limit = opt(random.one_in(2).then_some(1 << 30));
    memory.swap = opt(random.one_in(3).then_some(-1));
    memory.swappiness = opt(random.one_in(3).then_some(0));
    memory.disable_oom_killer = opt(random.one_in(3).then_some(false));
    let cpu = resources.cpu.mut_or_insert_default();
    cpu.shares = opt(random.one_in(2).then_some(512));
    cpu.quota = opt(random.one_in(2).then_some(-1));
    cpu.realtime_period = opt(random.one_in(3).then_some(u64::MAX));
    cpu.cpus = random.pick(&["", "0-1"]).to_string();
    if random.one_in(3) {
        resources.unified.insert("memory.high".to_owned(), "7".to_owned());
        let limit = HugepageLimit { page_size: "2MB".into(), limit: 1, ..Default::default() };
        resources.hugepage_limits.push(limit);
        let rule = LinuxDeviceCgroup {
            allow: random.one_in(2),
            type_: "c".into(),
            major: opt(Some(1)),
            access: "rw".into(),
            ..Default::default()
        };
        resources.devices.push(rule);
    }
    case
}
