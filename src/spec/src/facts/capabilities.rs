//! The fact `capabilities`: what any process of the container can come to have.

use crate::{OciConfig, capability::RuntimeKind};
use serde_json::Value;
use std::collections::BTreeSet;

/// The sets of `process.capabilities`. All count, since the kernel's rules of execve(2) combine
/// them.
const SETS: [&str; 5] = ["ambient", "bounding", "effective", "inheritable", "permitted"];

/// All capabilities of Linux 6.12.
const ALL: [&str; 41] = [
    "CAP_AUDIT_CONTROL",
    "CAP_AUDIT_READ",
    "CAP_AUDIT_WRITE",
    "CAP_BLOCK_SUSPEND",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_KILL",
    "CAP_LEASE",
    "CAP_LINUX_IMMUTABLE",
    "CAP_MAC_ADMIN",
    "CAP_MAC_OVERRIDE",
    "CAP_MKNOD",
    "CAP_NET_ADMIN",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_RAW",
    "CAP_PERFMON",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYSLOG",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_CHROOT",
    "CAP_SYS_MODULE",
    "CAP_SYS_NICE",
    "CAP_SYS_PACCT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_WAKE_ALARM",
];

/// Returns the union of all sets. Without `process.capabilities`, runc and crun give none, and
/// youki leaves the container those of its caller. Names are in capitals: crun takes either case.
pub(super) fn union(config: &OciConfig, kind: Option<RuntimeKind>) -> BTreeSet<String> {
    let Some(sets) = config.get(&["process", "capabilities"]) else {
        return match kind {
            Some(RuntimeKind::Runc | RuntimeKind::Crun) => BTreeSet::new(),
            Some(RuntimeKind::Youki) | None => ALL.map(str::to_owned).into(),
        };
    };
    let names = SETS.iter().filter_map(|set| sets.get(set)?.as_array()).flatten();
    names.filter_map(Value::as_str).map(str::to_ascii_uppercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(process: &Value, kind: Option<RuntimeKind>) -> Vec<String> {
        let config = OciConfig::from_value(json!({ "process": process })).unwrap();
        union(&config, kind).into_iter().collect()
    }

    #[test]
    fn all_sets_count_and_each_name_occurs_once() {
        let process = json!({"capabilities": {
            "bounding": ["CAP_KILL", "CAP_CHOWN"],
            "effective": ["CAP_KILL"],
            "permitted": ["cap_sys_admin"],
            "inheritable": ["CAP_NET_RAW"],
            "ambient": ["CAP_BPF", 7],
        }});
        let expected = ["CAP_BPF", "CAP_CHOWN", "CAP_KILL", "CAP_NET_RAW", "CAP_SYS_ADMIN"];
        assert_eq!(of(&process, None), expected);
        assert_eq!(of(&json!({"capabilities": {}}), None), Vec::<String>::new());
    }

    #[test]
    fn without_sets_the_container_has_what_its_runtime_gives() {
        assert!(ALL.is_sorted());
        for kind in [RuntimeKind::Runc, RuntimeKind::Crun] {
            assert_eq!(of(&json!({}), Some(kind)), Vec::<String>::new());
        }
        for kind in [Some(RuntimeKind::Youki), None] {
            assert_eq!(of(&json!({"capabilities": null}), kind), ALL);
        }
    }
}
