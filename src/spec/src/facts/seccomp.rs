//! The fact `seccomp`: whether a filter denies what the filters of engines deny by default.

use crate::OciConfig;
use serde_json::Value;
use std::collections::BTreeSet;

/// System calls that the default filters of Docker, containerd, Podman and CRI-O all deny, each
/// with the capabilities with which a default filter allows it. That of Podman and CRI-O allows
/// mount(2), unshare(2), pivot_root(2), keyctl(2) and reboot(2), which are therefore missing.
const DENIED: [(&str, &[&str]); 18] = [
    ("acct", &["CAP_SYS_PACCT"]),
    ("bpf", &["CAP_SYS_ADMIN", "CAP_BPF"]),
    ("clock_settime", &["CAP_SYS_TIME"]),
    ("delete_module", &["CAP_SYS_MODULE"]),
    ("fanotify_init", &["CAP_SYS_ADMIN"]),
    ("finit_module", &["CAP_SYS_MODULE"]),
    ("init_module", &["CAP_SYS_MODULE"]),
    ("ioperm", &["CAP_SYS_RAWIO"]),
    ("iopl", &["CAP_SYS_RAWIO"]),
    ("kexec_file_load", &[]),
    ("kexec_load", &[]),
    ("open_by_handle_at", &["CAP_DAC_READ_SEARCH"]),
    ("perf_event_open", &["CAP_SYS_ADMIN", "CAP_PERFMON"]),
    ("quotactl", &["CAP_SYS_ADMIN"]),
    ("settimeofday", &["CAP_SYS_TIME"]),
    ("swapoff", &[]),
    ("swapon", &[]),
    ("userfaultfd", &[]),
];

/// Actions by which a call is not made. After `SCMP_ACT_LOG` it is; after `SCMP_ACT_TRACE` a tracer
/// decides, which may be a process of the container, and after `SCMP_ACT_NOTIFY` another program.
const DENYING: [&str; 5] = [
    "SCMP_ACT_ERRNO",
    "SCMP_ACT_KILL",
    "SCMP_ACT_KILL_PROCESS",
    "SCMP_ACT_KILL_THREAD",
    "SCMP_ACT_TRAP",
];

/// Prefix of annotations with which crun replaces or weakens the filter, or hands it to a program.
const ANNOTATIONS: &str = "run.oci.seccomp";

/// Returns `none`, `unfiltered` or `filtered`.
pub(super) fn state(config: &OciConfig, capabilities: &BTreeSet<String>) -> &'static str {
    // runc takes a filter with neither a default action nor system calls for none.
    let empty = |seccomp: &&Value| {
        action(seccomp, "defaultAction").is_empty() && entries(seccomp).next().is_none()
    };
    let Some(seccomp) = config.get(&["linux", "seccomp"]).filter(|filter| !empty(filter)) else {
        return "none";
    };
    if fakes_calls(seccomp) || config.annotations().any(|(key, _)| key.starts_with(ANNOTATIONS)) {
        return "unfiltered";
    }
    let has_any = |names: &[&str]| names.iter().any(|name| capabilities.contains(*name));
    let mut wanted = DENIED.iter().filter(|(_, given)| !has_any(given));
    match wanted.all(|(call, _)| denies(seccomp, call)) {
        true => "filtered",
        false => "unfiltered",
    }
}

/// Whether some call can return success without being made. Runtimes install a filter before they
/// drop capabilities and change the user, unless `no_new_privileges` is set: with faked calls, the
/// container keeps all rights of the runtime, whatever `capabilities` and `user` say.
fn fakes_calls(seccomp: &Value) -> bool {
    // Runtimes take the low 16 bits. Without a number, runc, crun and youki take EPERM.
    let is_success = |object: &Value, key| {
        object.get(key).and_then(Value::as_u64).is_some_and(|number| number & 0xffff == 0)
    };
    let is_fake = |object: &Value, action_key, number_key| match action(object, action_key) {
        "SCMP_ACT_ERRNO" => is_success(object, number_key),
        "SCMP_ACT_TRACE" | "SCMP_ACT_NOTIFY" => true,
        _ => false,
    };
    is_fake(seccomp, "defaultAction", "defaultErrnoRet")
        || entries(seccomp).any(|entry| is_fake(entry, "action", "errnoRet"))
}

/// Whether a filter denies a call with any arguments: no entry for the call allows it, and one
/// without conditions on arguments, or the default action, denies it.
fn denies(seccomp: &Value, call: &str) -> bool {
    let mut denied = is_denying(action(seccomp, "defaultAction"));
    for entry in entries(seccomp) {
        let names = entry.get("names").and_then(Value::as_array).into_iter().flatten();
        if !names.into_iter().any(|name| name == call) {
            continue;
        }
        if !is_denying(action(entry, "action")) {
            return false;
        }
        let conditions = entry.get("args").and_then(Value::as_array);
        denied |= conditions.is_none_or(Vec::is_empty);
    }
    denied
}

fn entries(seccomp: &Value) -> impl Iterator<Item = &Value> {
    seccomp.get("syscalls").and_then(Value::as_array).into_iter().flatten()
}

fn action<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is_denying(action: &str) -> bool {
    DENYING.contains(&action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(seccomp: &Value, capabilities: &[&str]) -> &'static str {
        let config = OciConfig::from_value(json!({"linux": {"seccomp": seccomp}})).unwrap();
        state(&config, &capabilities.iter().map(|name| (*name).to_owned()).collect())
    }

    fn listed() -> Vec<&'static str> {
        DENIED.map(|(call, _)| call).to_vec()
    }

    #[test]
    fn a_filter_that_denies_nothing_is_no_filter() {
        assert_eq!(of(&Value::Null, &[]), "none");
        assert_eq!(of(&json!({}), &[]), "none");
        for action in ["ALLOW", "LOG", "TRACE", "NOTIFY", "UNKNOWN"] {
            let all = json!({"defaultAction": format!("SCMP_ACT_{action}")});
            assert_eq!(of(&all, &[]), "unfiltered", "{action}");
            let some = json!({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
                {"names": ["read", "bpf"], "action": format!("SCMP_ACT_{action}")},
            ]});
            assert_eq!(of(&some, &[]), "unfiltered", "{action}");
        }
    }

    #[test]
    fn a_filter_denies_all_of_the_list_or_counts_as_none() {
        for action in ["ERRNO", "KILL", "KILL_PROCESS", "KILL_THREAD", "TRAP"] {
            let action = format!("SCMP_ACT_{action}");
            assert_eq!(of(&json!({"defaultAction": action}), &[]), "filtered");
            let each = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
                {"names": listed(), "action": action},
            ]});
            assert_eq!(of(&each, &[]), "filtered");
            let but_one = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
                {"names": listed()[1..], "action": action},
            ]});
            assert_eq!(of(&but_one, &[]), "unfiltered");
        }
    }

    #[test]
    fn conditions_on_arguments_can_be_evaded() {
        let condition = json!([{"index": 0, "value": 7, "op": "SCMP_CMP_EQ"}]);
        let denied = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": listed(), "action": "SCMP_ACT_ERRNO", "args": condition},
        ]});
        assert_eq!(of(&denied, &[]), "unfiltered");
        let allowed = json!({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
            {"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "args": condition},
        ]});
        assert_eq!(of(&allowed, &[]), "unfiltered");
        let none = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": listed(), "action": "SCMP_ACT_ERRNO", "args": []},
        ]});
        assert_eq!(of(&none, &[]), "filtered");
    }

    /// Such a filter makes `capset` and `setuid` of the runtime succeed without an effect.
    #[test]
    fn a_filter_that_fakes_a_call_counts_as_none() {
        let of_call = |call: &str, action: &str, number: &Value| {
            of(
                &json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
                    {"names": listed(), "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
                    {"names": [call], "action": action, "errnoRet": number, "args": [
                        {"index": 0, "value": 24, "op": "SCMP_CMP_EQ"}]},
                ]}),
                &[],
            )
        };
        for call in ["capset", "prctl", "setuid", "setresuid", "setgroups", "fcntl"] {
            for number in [json!(0), json!(65536)] {
                assert_eq!(of_call(call, "SCMP_ACT_ERRNO", &number), "unfiltered", "{call}");
            }
            for action in ["SCMP_ACT_TRACE", "SCMP_ACT_NOTIFY"] {
                assert_eq!(of_call(call, action, &json!(1)), "unfiltered", "{call}");
            }
            assert_eq!(of_call(call, "SCMP_ACT_ERRNO", &json!(38)), "filtered", "{call}");
            assert_eq!(of_call(call, "SCMP_ACT_ERRNO", &Value::Null), "filtered", "{call}");
        }
        let default = json!({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 0});
        assert_eq!(of(&default, &[]), "unfiltered");
    }

    #[test]
    fn a_filter_that_an_annotation_replaces_counts_as_none() {
        let with = |key: &str| {
            let config = json!({"annotations": {key: "IAAAABUABAA="},
                "linux": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO"}}});
            state(&OciConfig::from_value(config).unwrap(), &BTreeSet::new())
        };
        for key in ["run.oci.seccomp_bpf_data", "run.oci.seccomp.receiver"] {
            assert_eq!(with(key), "unfiltered", "{key}");
        }
        assert_eq!(with("run.oci.keep_original_groups"), "filtered");
    }

    #[test]
    fn an_allowed_call_needs_the_capability_with_which_default_filters_allow_it() {
        let filter = json!({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
            {"names": ["bpf", "perf_event_open"], "action": "SCMP_ACT_ALLOW"},
        ]});
        assert_eq!(of(&filter, &[]), "unfiltered");
        assert_eq!(of(&filter, &["CAP_BPF"]), "unfiltered");
        assert_eq!(of(&filter, &["CAP_BPF", "CAP_PERFMON"]), "filtered");
        assert_eq!(of(&filter, &["CAP_SYS_ADMIN"]), "filtered");
        let all = DENIED.iter().flat_map(|(_, capabilities)| *capabilities).copied();
        let all: Vec<_> = all.collect();
        assert_eq!(of(&json!({"defaultAction": "SCMP_ACT_ALLOW"}), &all), "unfiltered");
    }
}
