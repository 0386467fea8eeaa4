//! The call of the runtime's `update` for an update by plugins. The runtime of an update by the
//! engine is called by its wrapper.

use crate::{
    host::runtime::RuntimeError,
    resources::{
        idle::{IdleUpdate, end_idle, set_idle},
        updatable::runtime_part,
    },
    state::record::Record,
};
use nri_spec::changed;
use serde_json::Value;

/// Fields whose values depend on no others, as limits of memory and swap do on one another.
const INDEPENDENT: [(&str, &str); 4] =
    [("cpu", "cpus"), ("cpu", "mems"), ("cpu", "shares"), ("pids", "limit")];

/// Makes an update of a container by its runtime. That gets all fields, because runc forgets those
/// that it does not get. One that the kernel refuses, such as a weight beside `cpu.idle`, must not
/// keep CPUs from a container, or in it: whoever creates a container could keep them by it. So a
/// runtime that fails is called again with what changes alone, if that depends on nothing else.
/// `idle` is what the runtime gets in place of an entry of `unified`, see [`set_idle`].
///
/// # Errors
/// The runtime refuses what changes.
pub(super) async fn update_by_runtime(
    record: &Record,
    wanted: &Value,
    idle: Option<IdleUpdate>,
) -> Result<(), RuntimeError> {
    let Record { runtime, key, effective, pod_id, .. } = record;
    let (before, after) = (runtime_part(effective), runtime_part(wanted));
    if before == after {
        return Ok(());
    }
    let update = async |mut resources: Value| {
        set_idle(&mut resources, idle);
        runtime.update(&key.id, &resources).await
    };
    end_idle(record, idle);
    let error = match update(after.clone()).await {
        Err(error @ RuntimeError::Failed { .. }) => error,
        result => return result,
    };
    let changes = changed(&before, &after);
    if changes == after || !is_independent(&changes) || update(changes).await.is_err() {
        return Err(error);
    }
    let (container, pod) = (&key.id, pod_id);
    tracing::warn!(container, pod, %error, "updated without the fields that stay");
    Ok(())
}

fn is_independent(changes: &Value) -> bool {
    let mut groups = changes.as_object().into_iter().flatten();
    groups.all(|(group, fields)| {
        let is_known = |key: &String| INDEPENDENT.contains(&(group.as_str(), key.as_str()));
        fields.as_object().is_some_and(|fields| fields.keys().all(is_known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::EXAMPLE;
    use serde_json::json;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[tokio::test]
    async fn a_field_that_is_refused_does_not_keep_others_from_their_values() {
        let dir = tempfile::tempdir().unwrap();
        let (runtime, log) = (dir.path().join("runtime"), dir.path().join("log"));
        let script = format!(
            "#!/bin/sh\nread -r text\necho \"$text\" >>{}\n\
             case $text in *shares*) echo refused >&2; exit 1;; esac\n",
            log.display()
        );
        fs::write(&runtime, script).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        let example = EXAMPLE.replace("/usr/bin/runc", runtime.to_str().unwrap());
        let mut record: Record = serde_json::from_str(&example).unwrap();
        record.effective = json!({"cpu": {"shares": 512, "cpus": "0-3"}}).into();
        let update = |cpu: Value| {
            let record = record.clone();
            async move { update_by_runtime(&record, &json!({"cpu": cpu}), None).await }
        };
        let sent = || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            fs::remove_file(&log).unwrap_or_default();
            text.lines().map(|l| serde_json::from_str(l).unwrap()).collect::<Vec<Value>>()
        };
        update(json!({"shares": 512, "cpus": "1"})).await.unwrap();
        let all = json!({"cpu": {"shares": 512, "cpus": "1"}});
        assert_eq!(sent(), [all, json!({"cpu": {"cpus": "1"}})]);
        update(json!({"shares": 512, "cpus": "0-3"})).await.unwrap();
        assert!(sent().is_empty());
        // The field itself.
        let refused = update(json!({"shares": 2, "cpus": "0-3"})).await.unwrap_err().to_string();
        assert!(refused.ends_with("update: refused"), "{refused}");
        assert_eq!(sent().len(), 2);
        // What depends on other fields.
        update(json!({"shares": 512, "cpus": "1", "quota": 7})).await.unwrap_err();
        assert_eq!(sent().len(), 1);
    }
}
