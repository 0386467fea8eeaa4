//! Annotations of pods, parsed to limits.

use nri_plugin::{ConfigurationError, RLIMITS, from_go_yaml, proto::PodSandbox};

/// Prefixes of annotations; the second one is that of earlier versions.
const KEYS: [&str; 2] = ["ulimits.noderesource.dev", "ulimits.nri.containerd.io"];

/// A limit of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ulimit {
    /// Name of the resource, `RLIMIT_…`.
    pub(crate) kind: String,
    /// Hard limit.
    pub(crate) hard: u64,
    /// Soft limit.
    pub(crate) soft: u64,
}

/// A limit as an annotation has it. A value that is absent or null is 0, or empty.
#[derive(serde::Deserialize)]
struct Entry {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    hard: Option<u64>,
    #[serde(default)]
    soft: Option<u64>,
}

/// Error of an annotation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UlimitError {
    /// The annotation is not a list of limits.
    #[error("annotation {key}: {source}")]
    Syntax {
        /// Key of the annotation.
        key: String,
        /// What is wrong.
        source: ConfigurationError,
    },
    /// The type is not a resource of setrlimit(2).
    #[error("failed to parse type: {0:?}")]
    Type(String),
    /// The hard limit is below the soft one.
    #[error("ulimit {0:?} must have hard limit >= soft limit")]
    HardBelowSoft(String),
}

/// Returns the limits of a container; none without an annotation, or if the annotation is empty.
pub(crate) fn ulimits(pod: &PodSandbox, container: &str) -> Result<Vec<Ulimit>, UlimitError> {
    let annotation = KEYS
        .iter()
        .map(|key| format!("{key}/container.{container}"))
        .find_map(|key| Some((pod.annotations.get(&key)?, key)));
    let Some((text, key)) = annotation.filter(|(text, _)| !text.trim().is_empty()) else {
        return Ok(Vec::new());
    };
    let entries: Option<Vec<Entry>> =
        from_go_yaml(text).map_err(|source| UlimitError::Syntax { key, source })?;
    let limits = entries.into_iter().flatten().map(limit).collect::<Result<Vec<_>, _>>()?;
    match limits.iter().find(|limit| limit.hard < limit.soft) {
        Some(limit) => Err(UlimitError::HardBelowSoft(limit.kind.clone())),
        None => Ok(limits),
    }
}

fn limit(entry: Entry) -> Result<Ulimit, UlimitError> {
    let given = entry.kind.unwrap_or_default();
    let upper = given.to_uppercase();
    let kind = format!("RLIMIT_{}", upper.strip_prefix("RLIMIT_").unwrap_or(&upper));
    if !RLIMITS.contains(&kind.as_str()) {
        return Err(UlimitError::Type(given));
    }
    Ok(Ulimit { kind, hard: entry.hard.unwrap_or_default(), soft: entry.soft.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::testing::pod;

    /// Checks the limits of container `c`, or the start of the error.
    fn check(annotations: &[(&str, &str)], expected: Result<&[(&str, u64, u64)], &str>) {
        let mut pod = pod("p");
        for (key, value) in annotations {
            pod.annotations.insert((*key).to_owned(), (*value).to_owned());
        }
        let found = ulimits(&pod, "c");
        match expected {
            Ok(limits) => {
                let found = found.unwrap();
                let found: Vec<_> =
                    found.iter().map(|l| (l.kind.as_str(), l.hard, l.soft)).collect();
                assert_eq!(found, limits, "{annotations:?}");
            }
            Err(start) => {
                let error = found.unwrap_err().to_string();
                assert!(error.starts_with(start), "{annotations:?}: {error}");
            }
        }
    }

    const KEY: &str = "ulimits.noderesource.dev/container.c";

    #[test]
    fn limits_are_parsed() {
        check(&[(KEY, "- type: RLIMIT_AS\n  hard: 2\n  soft: 1\n")], Ok(&[("RLIMIT_AS", 2, 1)]));
        check(
            &[(KEY, r#"[{"type": "rlimit_core", "hard": 18446744073709551615}, {"type": "cpu"}]"#)],
            Ok(&[("RLIMIT_CORE", u64::MAX, 0), ("RLIMIT_CPU", 0, 0)]),
        );
        check(&[(KEY, "- type: nice\n  hard: null\n  color: red\n")], Ok(&[("RLIMIT_NICE", 0, 0)]));
        for text in ["", " \n", "null", "[]"] {
            check(&[(KEY, text)], Ok(&[]));
        }
    }

    #[test]
    fn invalid_annotations_are_refused() {
        for (text, error) in [
            ("[{type: ULIMIT_NOFILE}]", "failed to parse type: \"ULIMIT_NOFILE\""),
            ("[{type: foo}]", "failed to parse type: \"foo\""),
            ("[{hard: 1}]", "failed to parse type: \"\""),
            ("[{type: as, soft: 1}]", "ulimit \"RLIMIT_AS\" must have hard limit >= soft limit"),
            ("[{type: as, hard: -1}]", "annotation ulimits.noderesource.dev/container.c: "),
            ("[{type: as, hard: unlimited}]", "annotation ulimits"),
            ("type: as", "annotation ulimits"),
            ("[", "annotation ulimits"),
        ] {
            check(&[(KEY, text)], Err(error));
        }
    }

    #[test]
    fn the_newer_key_wins() {
        let old = "ulimits.nri.containerd.io/container.c";
        check(&[(old, "[{type: as}]")], Ok(&[("RLIMIT_AS", 0, 0)]));
        check(&[(old, "[{type: as}]"), (KEY, "[{type: cpu}]")], Ok(&[("RLIMIT_CPU", 0, 0)]));
        check(&[(old, "[{type: as}]"), (KEY, "")], Ok(&[]));
        check(&[("ulimits.noderesource.dev/container.other", "[")], Ok(&[]));
    }
}
