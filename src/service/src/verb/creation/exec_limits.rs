//! Limits of `exec`: what the process of a container has, as far as the configuration limits an
//! `exec` to it when the container is created.

use nri_config::{ExecPolicy, ExecSettings};
use nri_files::{ExecLimits, ExecRights, ExecUser};
use nri_spec::OciConfig;
use serde_json::Value;

/// Returns the limits of a container with this OCI config; `None` if it has none.
pub(super) fn limits(config: &OciConfig, settings: &ExecSettings) -> Option<Box<ExecLimits>> {
    let is_refused = |policy| policy == ExecPolicy::Refuse;
    settings.refuses().then(|| {
        Box::new(ExecLimits {
            rights: is_refused(settings.more_rights).then(|| rights(config)),
            user: is_refused(settings.other_user).then(|| user(config)),
        })
    })
}

fn rights(config: &OciConfig) -> ExecRights {
    let text = |key| {
        let text = config.get(&["process", key]).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    ExecRights {
        capabilities: config.get(&["process", "capabilities"]).map(capabilities),
        no_new_privileges: config.get(&["process", "noNewPrivileges"]) == Some(&Value::Bool(true)),
        apparmor_profile: text("apparmorProfile"),
        selinux_label: text("selinuxLabel"),
    }
}

/// Returns the capabilities of all sets, each once.
fn capabilities(sets: &Value) -> Vec<String> {
    let sets = sets.as_object().into_iter().flat_map(|sets| sets.values());
    let mut names: Vec<_> = sets
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn user(config: &OciConfig) -> ExecUser {
    let get = |key| config.get(&["process", "user", key]);
    let id = |key| get(key).and_then(Value::as_u64).unwrap_or_default();
    let groups = get("additionalGids").and_then(Value::as_array);
    ExecUser {
        uid: id("uid"),
        gid: id("gid"),
        additional_gids: groups.into_iter().flatten().filter_map(Value::as_u64).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(process: &Value) -> OciConfig {
        OciConfig::from_value(json!({"ociVersion": "1.0.2", "process": process})).unwrap()
    }

    #[test]
    fn limits_are_what_the_process_has_as_far_as_configured() {
        let config = config(&json!({
            "user": {"uid": 5, "gid": 6, "additionalGids": [7]},
            "capabilities": {
                "bounding": ["CAP_KILL", "CAP_CHOWN"],
                "effective": ["CAP_KILL"],
                "ambient": ["CAP_BPF"],
                "permitted": null,
            },
            "noNewPrivileges": true,
            "apparmorProfile": "p",
            "selinuxLabel": "",
        }));
        let limits = |more_rights, other_user| {
            super::limits(&config, &ExecSettings { more_rights, other_user })
        };
        let rights = ExecRights {
            capabilities: Some(["CAP_BPF", "CAP_CHOWN", "CAP_KILL"].map(str::to_owned).into()),
            no_new_privileges: true,
            apparmor_profile: Some("p".to_owned()),
            selinux_label: None,
        };
        let user = ExecUser { uid: 5, gid: 6, additional_gids: vec![7] };
        let expected = |rights, user| Some(Box::new(ExecLimits { rights, user }));
        let (allow, refuse) = (ExecPolicy::Allow, ExecPolicy::Refuse);
        assert_eq!(limits(allow, allow), None);
        assert_eq!(limits(refuse, allow), expected(Some(rights.clone()), None));
        assert_eq!(limits(allow, refuse), expected(None, Some(user.clone())));
        assert_eq!(limits(refuse, refuse), expected(Some(rights), Some(user)));
    }

    #[test]
    fn a_process_without_members_has_no_rights_and_user_0() {
        for process in [json!({}), json!(null)] {
            let config = config(&process);
            assert_eq!(rights(&config), ExecRights::default());
            assert_eq!(user(&config), ExecUser::default());
        }
    }
}
