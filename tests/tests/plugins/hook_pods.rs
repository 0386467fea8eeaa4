//! Pods and definitions of the plugin `hook-injector`.

use crate::{
    difference::Difference,
    pods::{self, Case},
    random::Random,
};
use std::path::Path;

/// Differences on purpose.
pub(crate) const DIFFERENCES: &[Difference] = &[Difference {
    what: "hasBindMounts holds with a bind mount, not with any mount",
    applies: |case, theirs, ours| {
        let has_bind = case.container.mounts.iter().any(|mount| mount.type_ == "bind");
        let text = |outcome| format!("{outcome:?}").contains("BIND");
        !has_bind && text(theirs) && !text(ours)
    },
}];

/// Definitions by file, in both directories and both formats.
const DEFINITIONS: [(&str, &str); 10] = [
    (
        "etc/containers/oci/hooks.d/10-always.json",
        r#"{"version": "1.0.0", "hook": {"path":
        "/bin/true", "args": ["true", "always"], "env": ["A=b"], "timeout": 7},
        "when": {"always": true}, "stages": ["prestart", "poststop"]}"#,
    ),
    (
        "etc/containers/oci/hooks.d/20-hidden.json",
        r#"{"version": "1.0.0", "hook": {"path":
        "/bin/true", "args": ["true", "visible"]}, "when": {"commands": ["^/bin/sh$", "init"]},
        "stages": ["createContainer"]}"#,
    ),
    (
        "usr/share/containers/oci/hooks.d/20-hidden.json",
        r#"{"version": "1.0.0", "hook": {"path":
        "/bin/true", "args": ["true", "hidden"]}, "when": {"always": true},
        "stages": ["createContainer"]}"#,
    ),
    (
        "usr/share/containers/oci/hooks.d/15-Upper.json",
        r#"{"version": "1.0.0", "hook": {"path":
        "/bin/true"}, "when": {"annotations": {"^a$": "^1$", "b": ".*"}},
        "stages": ["startContainer", "poststart", "createRuntime"]}"#,
    ),
    (
        "usr/share/containers/oci/hooks.d/16-lower.json",
        r#"{"version": "1.0.0", "hook": {"path":
        "/bin/true", "args": ["BIND"]}, "when": {"hasBindMounts": true}, "stages": ["poststop"]}"#,
    ),
    (
        "etc/containers/oci/hooks.d/30-never.json",
        r#"{"version": "1.0.0", "hook": {"path":
        "/bin/true"}, "when": {"always": false}, "stages": ["poststop"]}"#,
    ),
    (
        "etc/containers/oci/hooks.d/31-all.json",
        r#"{"version": "1.0.0", "hook": {"path":
        "/bin/true", "args": ["all"]}, "when": {"always": true, "annotations": {"a": "2"},
        "commands": ["sh"]}, "stages": ["poststop", "poststop"]}"#,
    ),
    (
        "etc/containers/oci/hooks.d/40-old.json",
        r#"{"hook": "/bin/true", "arguments": ["old"],
        "cmds": ["init$"], "annotation": ["^3$", "x"], "stage": ["prestart"]}"#,
    ),
    (
        "etc/containers/oci/hooks.d/41-absent.json",
        r#"{"version": "1.0.0", "hook": {"path":
        "/no/such/program"}, "when": {"always": true}, "stages": ["poststop"]}"#,
    ),
    ("etc/containers/oci/hooks.d/README", "no definition"),
];

/// Writes the definitions below a directory.
pub(crate) fn write(root: &Path) {
    for (file, text) in DEFINITIONS {
        let file = root.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
}

/// Returns a pod and a container with annotations, arguments and mounts.
pub(crate) fn any(random: &mut Random) -> Case {
    let mut case = pods::any(random);
    for _ in 0..random.below(3) {
        let key = random.pick(&["a", "b", "ab", "c"]).to_string();
        let value = random.pick(&["1", "2", "3", "", "xyz"]).to_string();
        let of_pod = random.one_in(2);
        let annotations =
            if of_pod { &mut case.pod.annotations } else { &mut case.container.annotations };
        annotations.insert(key, value);
    }
    let programs = ["/bin/sh", "sh", "/sbin/init", "/bin/sleep"];
    case.container.args = vec![random.pick(&programs).to_string(), "x".to_owned()];
    if random.one_in(15) {
        case.container.args.clear();
    }
    if random.one_in(2) {
        let mut mount = case.container.mounts[0].clone();
        mount.type_ = "bind".to_owned();
        case.container.mounts.push(mount);
    }
    if random.one_in(15) {
        case.container.mounts.clear();
    }
    case
}
