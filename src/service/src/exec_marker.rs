//! What `exec` has to know: the environment and rlimits that a container's document got beyond what its engine wrote. Engines make the process of an
//! `exec` from their own document, so the wrapper lays these into it. No marker, no work for the wrapper.

use crate::record::Key;
use nri_control::{ExecChanges, ExecMarker, ExecRlimit, ExecVariable};
use nri_spec::Document;
use serde_json::Value;
use std::collections::BTreeMap;

/// The difference of two documents' processes, as far as an `exec` shares it.
pub fn changes(original: &Document, adjusted: &Document) -> ExecChanges {
    ExecChanges { env: env_changes(original, adjusted), rlimits: rlimit_changes(original, adjusted) }
}

fn env_changes(original: &Document, adjusted: &Document) -> Vec<ExecVariable> {
    let (before, after) = (variables(original), variables(adjusted));
    let names = after.keys().chain(before.keys().filter(|n| !after.contains_key(*n)));
    names
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| ExecVariable {
            name: (*name).to_owned(),
            engine: before.get(name).map(|v| (*v).to_owned()),
            value: after.get(name).map(|v| (*v).to_owned()),
        })
        .collect()
}

fn variables(document: &Document) -> BTreeMap<&str, &str> {
    document.env().into_iter().filter_map(|v| v.split_once('=')).collect()
}

fn rlimit_changes(original: &Document, adjusted: &Document) -> Vec<ExecRlimit> {
    let list = |d: &Document| -> Vec<Value> {
        d.get(&["process", "rlimits"]).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (before, after) = (list(original), list(adjusted));
    let same_kind = |a: &Value, b: &Value| a.get("type") == b.get("type");
    after
        .iter()
        .filter(|new| !before.iter().any(|old| nri_spec::same(old, new)))
        .map(|new| ExecRlimit {
            engine: before.iter().find(|old| same_kind(old, new)).cloned(),
            value: new.clone(),
        })
        .collect()
}

/// Removes a container's part of the marker file.
pub fn forget(state_dir: &std::path::Path, key: &Key) {
    if let Err(error) = set(state_dir, &key.id, &key.root, None) {
        tracing::warn!(%error, container = key.id, "marker for exec");
    }
}

/// Writes, replaces or removes a container's part of the marker file.
///
/// # Errors
/// The file cannot be written; the old one still stands.
pub fn set(
    state_dir: &std::path::Path,
    id: &str,
    root: &std::path::Path,
    changes: Option<ExecChanges>,
) -> std::io::Result<()> {
    let path = ExecMarker::path(state_dir, id);
    let mut marker = match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => ExecMarker::default(),
        Err(e) => return Err(e),
    };
    let root = nri_control::OsText::from(root.as_os_str());
    marker.containers.retain(|c| c.root != root);
    if let Some(changes) = changes.filter(|c| !c.is_empty()) {
        marker.containers.push(nri_control::ExecContainer { root, changes });
    }
    if marker.containers.is_empty() {
        return match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
    }
    crate::store::write_json(&path, &marker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_and_both_values() {
        let document = |env: Value, rlimits: Value| {
            Document::from_value(json!({"ociVersion": "1.0.2", "process": {"env": env, "rlimits": rlimits}}))
                .unwrap()
        };
        let nofile = |n: u64| json!({"type": "RLIMIT_NOFILE", "hard": n, "soft": n});
        let original = document(json!(["A=1", "B=2", "C=3"]), json!([nofile(1)]));
        let adjusted = document(json!(["A=1", "B=9", "D=4"]), json!([nofile(2)]));
        let changes = changes(&original, &adjusted);
        let env: Vec<_> =
            changes.env.iter().map(|v| (v.name.as_str(), v.engine.as_deref(), v.value.as_deref())).collect();
        assert_eq!(env, [("B", Some("2"), Some("9")), ("D", None, Some("4")), ("C", Some("3"), None)]);
        assert_eq!(changes.rlimits, [ExecRlimit { engine: Some(nofile(1)), value: nofile(2) }]);
        assert!(super::changes(&original, &original).is_empty());
    }

    #[test]
    fn two_roots_share_a_file_and_leave_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("exec")).unwrap();
        let change = || {
            let variable = ExecVariable { name: "A".into(), engine: None, value: Some("1".into()) };
            Some(ExecChanges { env: vec![variable], rlimits: Vec::new() })
        };
        let path = ExecMarker::path(dir.path(), "c");
        set(dir.path(), "c", "/a".as_ref(), change()).unwrap();
        set(dir.path(), "c", "/b".as_ref(), change()).unwrap();
        set(dir.path(), "c", "/a".as_ref(), None).unwrap();
        let marker: ExecMarker = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(marker.containers.len(), 1);
        set(dir.path(), "c", "/b".as_ref(), Some(ExecChanges::default())).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn the_longest_id_has_a_marker() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("exec")).unwrap();
        let variable = ExecVariable { name: "A".into(), engine: None, value: Some("1".into()) };
        let id = "x".repeat(255);
        let changes = ExecChanges { env: vec![variable], rlimits: Vec::new() };
        set(dir.path(), &id, "/a".as_ref(), Some(changes)).unwrap();
        assert!(ExecMarker::path(dir.path(), &id).exists());
        set(dir.path(), &id, "/a".as_ref(), None).unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("exec")).unwrap().count(), 0);
    }
}
