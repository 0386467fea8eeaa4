//! Facts about containers that the protocol has no fields for, as annotations. Their prefix is
//! reserved: what engines, users and images set under it does not reach plugins.

use nri_config::ContainerFact;
use nri_engine::EngineKind;
use nri_spec::OciConfig;
use serde_json::Value;
use std::collections::HashMap;

/// Prefix of the annotations.
const PREFIX: &str = "facts.nri-container-runtime/";

/// Returns the first key of an adjustment, or of its removals, that has the reserved prefix.
pub(super) fn reserved<'a>(keys: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    keys.map(|key| key.strip_prefix('-').unwrap_or(key)).filter(|key| is_reserved(key)).min()
}

/// Removes annotations that have the reserved prefix.
pub(super) fn remove_forged(annotations: &mut HashMap<String, String>) {
    annotations.retain(|key, _| !is_reserved(key));
}

/// Returns the annotations for `facts`.
pub(super) fn annotations(
    facts: &[ContainerFact],
    engine: &EngineKind,
    config: &OciConfig,
) -> impl Iterator<Item = (String, String)> {
    facts.iter().map(|fact| {
        let value = match fact {
            ContainerFact::Engine => engine.name().to_owned(),
            ContainerFact::Capabilities => capabilities(config).join(","),
            ContainerFact::Privileged => is_privileged(config).to_string(),
        };
        (format!("{PREFIX}{}", fact.name()), value)
    })
}

fn is_reserved(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// Returns the bounding set in the order of names.
fn capabilities(config: &OciConfig) -> Vec<&str> {
    let set = config.get(&["process", "capabilities", "bounding"]).and_then(Value::as_array);
    let mut names: Vec<&str> = set.into_iter().flatten().filter_map(Value::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether a container has what engines give it with `--privileged`: CAP_SYS_ADMIN, all devices, no
/// seccomp filter. Not all capabilities, since an engine without them cannot give them.
fn is_privileged(config: &OciConfig) -> bool {
    let has_seccomp = config.get(&["linux", "seccomp"]).is_some_and(|seccomp| !seccomp.is_null());
    capabilities(config).contains(&"CAP_SYS_ADMIN") && has_all_devices(config) && !has_seccomp
}

/// Whether the last rule for all devices allows all accesses.
fn has_all_devices(config: &OciConfig) -> bool {
    let rules = config.get(&["linux", "resources", "devices"]).and_then(Value::as_array);
    let rules = rules.map(Vec::as_slice).unwrap_or_default();
    let is_of_all = |rule: &&Value| {
        let any = |number: &Value| number.is_null() || number.as_i64() == Some(-1);
        matches!(rule["type"].as_str(), None | Some("" | "a"))
            && any(&rule["major"])
            && any(&rule["minor"])
    };
    rules.iter().rfind(is_of_all).is_some_and(|rule| {
        let access = rule["access"].as_str().unwrap_or("rwm");
        rule["allow"] == true && "rwm".chars().all(|kind| access.contains(kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(value: &Value) -> OciConfig {
        OciConfig::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_container_is_privileged_with_all_devices_and_sys_admin_and_without_seccomp() {
        let privileged = json!({
            "ociVersion": "1.0.2",
            "process": {"capabilities": {"bounding": ["CAP_SYS_ADMIN", "CAP_KILL"]}},
            "linux": {"resources": {"devices": [
                {"allow": false, "access": "rwm"},
                {"allow": true, "access": "rwm", "type": "c", "major": 1, "minor": 3},
                {"allow": true, "access": "rwm"},
            ]}}
        });
        assert!(is_privileged(&config(&privileged)));
        let changed = |path: &str, value: Value| {
            let mut changed = privileged.clone();
            *changed.pointer_mut(path).unwrap() = value;
            is_privileged(&config(&changed))
        };
        assert!(!changed("/process/capabilities/bounding", json!(["CAP_KILL"])));
        assert!(!changed("/linux/resources/devices/2/allow", json!(false)));
        assert!(!changed("/linux/resources/devices/2/access", json!("rm")));
        assert!(!changed("/linux/resources/devices/2", json!({"allow": true, "type": "b"})));
        assert!(!changed("/linux/resources/devices/2", json!({"allow": true, "major": 8})));
        assert!(!changed("/linux/resources", json!({})));
        let mut filtered = privileged.clone();
        filtered["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ERRNO"});
        assert!(!is_privileged(&config(&filtered)));
    }

    #[test]
    fn only_chosen_facts_are_annotations_with_the_reserved_prefix() {
        let config = config(&json!({
            "ociVersion": "1.0.2",
            "process": {"capabilities": {"bounding": ["CAP_KILL", "CAP_CHOWN", "CAP_KILL"]}},
        }));
        let of = |facts: &[ContainerFact]| -> Vec<(String, String)> {
            annotations(facts, &EngineKind::Docker, &config).collect()
        };
        assert_eq!(of(&[]), []);
        let fact = |name: &str, value: &str| (format!("{PREFIX}{name}"), value.to_owned());
        assert_eq!(
            of(&[ContainerFact::Engine, ContainerFact::Capabilities, ContainerFact::Privileged]),
            [
                fact("engine", "docker"),
                fact("capabilities", "CAP_CHOWN,CAP_KILL"),
                fact("privileged", "false"),
            ]
        );
        let mut annotations = HashMap::from([fact("privileged", "true"), fact("other", "")]);
        annotations.insert("a".to_owned(), "b".to_owned());
        remove_forged(&mut annotations);
        assert_eq!(annotations, HashMap::from([("a".to_owned(), "b".to_owned())]));
        let keys = ["a".to_owned(), format!("-{PREFIX}x"), format!("{PREFIX}a")];
        assert_eq!(reserved(keys.iter()), Some("facts.nri-container-runtime/a"));
        assert_eq!(reserved(keys[..1].iter()), None);
    }
}
