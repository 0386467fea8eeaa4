//! Markers for `exec`: environment variables and rlimits that plugins have adjusted, and limits of
//! the record. Engines build the process of an `exec` from their own OCI config, so the wrapper
//! adds the adjustments to that process. A container without adjustments and limits has no marker.

use crate::{
    bundle::{config_json::MAX_CONFIG_SIZE, record::BundleRecord},
    host::file_access::{self, FileSystem, LOOKUP_TIMEOUT},
    state::{key::ContainerKey, record::Record, store::write_json},
};
use nri_files::{
    ExecChanges, ExecContainer, ExecMarker, ExecRlimit, ExecVariable, MAX_RECORD, OsText,
};
use nri_host::sha256 as digest;
use nri_spec::{OciConfig, OciConfigError};
use nri_trust::read_regular;
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Returns the differences between two OCI configs in the parts of `process` that also apply to
/// `exec`.
pub fn changes(original: &OciConfig, adjusted: &OciConfig) -> ExecChanges {
    ExecChanges {
        env: env_changes(original, adjusted),
        rlimits: rlimit_changes(original, adjusted),
    }
}

fn env_changes(original: &OciConfig, adjusted: &OciConfig) -> Vec<ExecVariable> {
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

fn variables(config: &OciConfig) -> BTreeMap<&str, &str> {
    config.env().into_iter().filter_map(|v| v.split_once('=')).collect()
}

fn rlimit_changes(original: &OciConfig, adjusted: &OciConfig) -> Vec<ExecRlimit> {
    let (before, after) = (rlimits(original), rlimits(adjusted));
    let mut by_key: HashMap<_, Vec<&Value>> = HashMap::new();
    let mut kinds = HashMap::new();
    for old in before {
        by_key.entry(comparison_key(old)).or_default().push(old);
        // Of several rlimits of one type, the first one is reported as the engine's.
        kinds.entry(old.get("type")).or_insert(old);
    }
    let is_unchanged = |new: &Value| {
        by_key
            .get(&comparison_key(new))
            .is_some_and(|olds| olds.iter().any(|old| nri_spec::same_value(old, new)))
    };
    after
        .iter()
        .filter(|new| !is_unchanged(new))
        .map(|new| ExecRlimit {
            engine: kinds.get(&new.get("type")).map(|old| (*old).clone()),
            value: new.clone(),
        })
        .collect()
}

fn rlimits(config: &OciConfig) -> &[Value] {
    config.get(&["process", "rlimits"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a key that is equal for equal rlimits, and rarely equal for different ones. Limits are
/// compared by value.
fn comparison_key(rlimit: &Value) -> (Option<&str>, [Option<u64>; 2]) {
    // Adding 0.0 turns -0.0 into 0.0.
    let number = |key| rlimit.get(key).and_then(Value::as_f64).map(|n| (n + 0.0).to_bits());
    (rlimit.get("type").and_then(Value::as_str), [number("hard"), number("soft")])
}

/// Reason why a marker cannot be restored.
#[derive(Debug, thiserror::Error)]
enum RestoreMarkerError {
    /// The OCI config cannot be read, or the marker cannot be written.
    #[error("{}: {source}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The OCI config in the engine's bundle is another one.
    #[error("{} has been replaced", .0.display())]
    Replaced(PathBuf),
    /// The file system of the bundle hangs.
    #[error("{}: its file system hangs", .0.display())]
    Hangs(PathBuf),
    /// The original or the adjusted OCI config is malformed.
    #[error("{}: {source}", file.display())]
    Config {
        /// Path of the OCI config in the engine's bundle.
        file: PathBuf,
        /// Cause of the failure.
        source: OciConfigError,
    },
}

/// Removes a container's entry from the marker file.
pub fn forget(state_dir: &Path, key: &ContainerKey) {
    if let Err(error) = replace(state_dir, key, None) {
        tracing::warn!(%error, container = key.id, "cannot remove the marker for exec");
    }
}

/// Writes the entry of a container again, after the state directory was removed. The changes are in
/// the OCI configs of the two bundles, which may be unreadable; the limits are written before.
pub async fn restore(state_dir: &Path, record: Arc<Record>) {
    let (file_system, id) = (FileSystem::Device(record.bundle.identity.0), record.key.id.clone());
    if record.exec_limits.is_some()
        && let Err(error) = set(state_dir, &record, ExecChanges::default())
    {
        tracing::error!(%error, container = id, "cannot restore the limits of exec");
    }
    let (state_dir, dir) = (state_dir.to_owned(), record.bundle.dir.clone());
    let restore = move || restore_now(&state_dir, &record);
    let restored = file_access::run(file_system, LOOKUP_TIMEOUT, restore).await;
    if let Err(error) = restored.unwrap_or(Err(RestoreMarkerError::Hangs(dir))) {
        tracing::warn!(%error, container = id, "cannot restore the marker for exec");
    }
}

fn restore_now(state_dir: &Path, record: &Record) -> Result<(), RestoreMarkerError> {
    let BundleRecord { dir, name, own: Some(own), .. } = &record.bundle else { return Ok(()) };
    let Some(adjusted) = &own.config else { return Ok(()) };
    let file = dir.join(name);
    let original = read_regular(&file, MAX_CONFIG_SIZE)
        .map_err(|source| RestoreMarkerError::File { file: file.clone(), source })?;
    if digest(&original) != own.made_from {
        return Err(RestoreMarkerError::Replaced(file));
    }
    let parse = |text: &[u8]| {
        OciConfig::parse(text)
            .map_err(|source| RestoreMarkerError::Config { file: file.clone(), source })
    };
    let changes = changes(&parse(&original)?, &parse(adjusted.as_bytes())?);
    set(state_dir, record, changes).map_err(|source| {
        let file = ExecMarker::path(state_dir, &record.key.id);
        RestoreMarkerError::File { file, source }
    })
}

/// Writes the entry of a container with these changes and the limits of its record. Removes the
/// entry if it has neither.
///
/// # Errors
/// The file cannot be written; the old file then remains.
pub fn set(state_dir: &Path, record: &Record, changes: ExecChanges) -> io::Result<()> {
    let limits = record.exec_limits.as_deref().cloned();
    let is_needed = limits.is_some() || !changes.is_empty();
    let root = OsText::from(record.key.root.as_os_str());
    let entry = is_needed.then_some(ExecContainer { root, changes, limits });
    replace(state_dir, &record.key, entry)
}

/// Writes, replaces or removes a container's entry in the marker file.
fn replace(
    state_dir: &Path,
    ContainerKey { root, id }: &ContainerKey,
    entry: Option<ExecContainer>,
) -> io::Result<()> {
    // Containers with the same id in different roots share a file.
    static WRITE_LOCK: Mutex<()> = Mutex::new(());
    let _lock = WRITE_LOCK.lock();
    let path = ExecMarker::path(state_dir, id);
    let mut marker = match read_regular(&path, MAX_RECORD) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => ExecMarker::default(),
        Err(e) => return Err(e),
    };
    marker.containers.retain(|c| c.root.as_path() != root);
    marker.containers.extend(entry);
    if marker.containers.is_empty() {
        return match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
    }
    write_json(&path, &marker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::EXAMPLE;
    use nri_files::ExecLimits;
    use serde_json::json;

    #[test]
    fn a_change_has_the_values_of_both_configs() {
        let config = |env: Value, rlimits: Value| {
            OciConfig::from_value(
                json!({"ociVersion": "1.0.2", "process": {"env": env, "rlimits": rlimits}}),
            )
            .unwrap()
        };
        let nofile = |n: u64| json!({"type": "RLIMIT_NOFILE", "hard": n, "soft": n});
        let original = config(json!(["A=1", "B=2", "C=3"]), json!([nofile(1)]));
        let adjusted = config(json!(["A=1", "B=9", "D=4"]), json!([nofile(2)]));
        let changes = changes(&original, &adjusted);
        let env: Vec<_> = changes
            .env
            .iter()
            .map(|v| (v.name.as_str(), v.engine.as_deref(), v.value.as_deref()))
            .collect();
        assert_eq!(
            env,
            [("B", Some("2"), Some("9")), ("D", None, Some("4")), ("C", Some("3"), None)]
        );
        assert_eq!(changes.rlimits, [ExecRlimit { engine: Some(nofile(1)), value: nofile(2) }]);
        assert!(super::changes(&original, &original).is_empty());
    }

    fn with_rlimits(rlimits: Vec<Value>) -> OciConfig {
        OciConfig::from_value(json!({"ociVersion": "1.0.2", "process": {"rlimits": rlimits}}))
            .unwrap()
    }

    #[test]
    fn rlimits_are_compared_by_value_and_in_any_order() {
        let limit =
            |n: u64, hard: u64| json!({"type": format!("RLIMIT_{n}"), "hard": hard, "soft": n});
        let changed = |n: &u64| n.is_multiple_of(3);
        let original = with_rlimits((0..5000).map(|n| limit(n, n)).collect());
        // The adjusted limits are in reverse order. Every third limit differs; the others are equal
        // numbers that are written differently. The second half of the limits is new. There are
        // thousands, since comparing each with each would take noticeable time.
        let adjusted_limit = |n: u64| {
            if changed(&n) {
                limit(n, n + 1)
            } else {
                serde_json::from_str(&format!(
                    r#"{{"soft": {n}.0, "hard": {n}0e-1, "type": "RLIMIT_{n}"}}"#
                ))
                .unwrap()
            }
        };
        let adjusted = with_rlimits((0..10000).rev().map(adjusted_limit).collect());
        let expected: Vec<_> = (0..10000)
            .rev()
            .filter(|n| *n >= 5000 || changed(n))
            .map(|n| ExecRlimit {
                engine: (n < 5000).then(|| limit(n, n)),
                value: adjusted_limit(n),
            })
            .collect();
        assert_eq!(rlimit_changes(&original, &adjusted), expected);
    }

    #[test]
    fn repeated_large_and_malformed_rlimits_are_compared() {
        let limit = |hard: &str| {
            serde_json::from_str::<Value>(&format!(r#"{{"type": "A", "hard": {hard}, "soft": 0}}"#))
                .unwrap()
        };
        // The last two are different integers, but equal as floats.
        let texts = ["1", "2", "18446744073709551615", "18446744073709551614"];
        let original = with_rlimits(texts[..3].iter().map(|t| limit(t)).collect());
        let adjusted =
            with_rlimits(texts.iter().rev().map(|t| limit(t)).chain([limit("-0.0")]).collect());
        let change = |hard| ExecRlimit { engine: Some(limit("1")), value: limit(hard) };
        assert_eq!(rlimit_changes(&original, &adjusted), [change(texts[3]), change("-0.0")]);
        let zero = with_rlimits(vec![limit("0")]);
        assert!(rlimit_changes(&zero, &with_rlimits(vec![limit("-0.0")])).is_empty());
        let malformed = with_rlimits(vec![json!(1), json!({"type": 7}), json!({"hard": 1})]);
        assert!(rlimit_changes(&malformed, &malformed).is_empty());
        let engine =
            |value: Value| rlimit_changes(&malformed, &with_rlimits(vec![value])).remove(0).engine;
        // Two types are equal if their JSON is equal, or if both are missing.
        assert_eq!(engine(json!({"type": 7, "hard": 1})), Some(json!({"type": 7})));
        assert_eq!(engine(json!({"soft": 1})), Some(json!(1)));
        assert_eq!(engine(json!({"type": "A"})), None);
    }

    fn state_dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("exec")).unwrap();
        dir
    }

    fn record(root: &str, id: &str) -> Record {
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        record.key = ContainerKey { root: root.into(), id: id.into() };
        record
    }

    fn change() -> ExecChanges {
        let variable = ExecVariable { name: "A".into(), engine: None, value: Some("1".into()) };
        ExecChanges { env: vec![variable], rlimits: Vec::new() }
    }

    fn marked(dir: &Path, id: &str) -> Vec<ExecContainer> {
        let text = std::fs::read(ExecMarker::path(dir, id)).unwrap();
        serde_json::from_slice::<ExecMarker>(&text).unwrap().containers
    }

    #[test]
    fn containers_of_one_id_in_two_roots_share_a_marker_file() {
        let dir = state_dir();
        let (a, b) = (record("/a", "c"), record("/b", "c"));
        set(dir.path(), &a, change()).unwrap();
        set(dir.path(), &b, change()).unwrap();
        forget(dir.path(), &a.key);
        assert_eq!(marked(dir.path(), "c").len(), 1);
        set(dir.path(), &b, ExecChanges::default()).unwrap();
        assert!(!ExecMarker::path(dir.path(), "c").exists());
    }

    #[test]
    fn a_container_with_limits_has_a_marker_until_it_is_forgotten() {
        let dir = state_dir();
        let mut record = record("/a", "c");
        record.exec_limits = Some(Box::default());
        set(dir.path(), &record, ExecChanges::default()).unwrap();
        assert_eq!(marked(dir.path(), "c")[0].limits, Some(ExecLimits::default()));
        set(dir.path(), &record, change()).unwrap();
        let [container] = &marked(dir.path(), "c")[..] else { panic!("one entry") };
        assert_eq!(
            (&container.changes, &container.limits),
            (&change(), &Some(ExecLimits::default()))
        );
        forget(dir.path(), &record.key);
        assert!(!ExecMarker::path(dir.path(), "c").exists());
    }

    #[tokio::test]
    async fn limits_are_restored_although_the_bundle_is_gone() {
        let dir = state_dir();
        let mut record = record("/a", "c");
        record.exec_limits = Some(Box::default());
        record.bundle.dir = dir.path().join("missing");
        restore(dir.path(), Arc::new(record)).await;
        assert_eq!(marked(dir.path(), "c")[0].limits, Some(ExecLimits::default()));
    }

    #[test]
    fn an_id_of_maximum_length_has_a_marker() {
        let dir = state_dir();
        let id = "x".repeat(255);
        let record = record("/a", &id);
        set(dir.path(), &record, change()).unwrap();
        assert!(ExecMarker::path(dir.path(), &id).exists());
        forget(dir.path(), &record.key);
        assert_eq!(std::fs::read_dir(dir.path().join("exec")).unwrap().count(), 0);
    }
}
