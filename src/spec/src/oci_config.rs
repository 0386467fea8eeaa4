//! [`OciConfig`]: a `config.json`, kept as it was written.
//!
//! The accessors are lenient: a field that is missing or of a wrong type is `None`. The strict
//! conversion for plugins is [`to_container`](crate::to_container).

use crate::json::{go_keys, wrong_type::kind};
use serde_json::Value;

/// Largest size of an OCI config in bytes. OCI configs of engines have tens of kilobytes; the limit
/// bounds the memory that one container can take.
pub const MAX_OCI_CONFIG: usize = 16 << 20;

/// Largest number of values of an OCI config. Each takes hundreds of bytes when the config is read,
/// copied and sent to plugins, however short its text is. OCI configs of engines have thousands.
pub const MAX_VALUES: usize = 200_000;

/// Largest number of nested levels, below the recursion limit of `serde_json`. OCI configs of
/// engines have less than ten.
pub const MAX_DEPTH: usize = 127;

/// `serde_json` reads an object that begins with this key as a number (feature
/// `arbitrary_precision`).
const RESERVED: &str = "$serde_json::private::Number";

/// Kinds of hooks, in the order in which they run.
pub(crate) const HOOK_KINDS: [&str; 6] =
    ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

/// An OCI config: a JSON object with its key order and the text of its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct OciConfig(Value);

/// An entry of `mounts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OciMount<'a> {
    /// Path in the container.
    pub destination: &'a str,
    /// Path on the host, or another source that the file system type defines.
    pub source: Option<&'a str>,
    /// File system type.
    pub kind: Option<&'a str>,
}

/// An entry of `linux.namespaces`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OciNamespace<'a> {
    /// `network`, `pid`, …
    pub kind: &'a str,
    /// The namespace to join; `None` creates a new one.
    pub path: Option<&'a str>,
}

impl OciConfig {
    /// Reads the bytes of a `config.json`.
    ///
    /// If a key occurs twice in one object, the last value counts, at the position of the first.
    /// Bytes after the object are ignored, as runc ignores them.
    pub fn parse(bytes: &[u8]) -> Result<Self, OciConfigError> {
        if bytes.len() > MAX_OCI_CONFIG {
            return Err(OciConfigError::TooLarge { size: bytes.len(), limit: MAX_OCI_CONFIG });
        }
        // Smaller ones need no look: a value takes a byte or more, and a separator.
        if bytes.len() > MAX_VALUES && separators(bytes) > MAX_VALUES {
            return Err(OciConfigError::TooManyValues { limit: MAX_VALUES });
        }
        if has_reserved_key(bytes) {
            return Err(OciConfigError::ReservedKey { key: RESERVED });
        }
        let first = serde_json::Deserializer::from_slice(bytes).into_iter().next();
        // If the text has no value, `from_slice` returns the error.
        Self::from_value(first.unwrap_or_else(|| serde_json::from_slice(bytes))?)
    }

    /// Checks that no runtime would miss a change between `before` and this OCI config because of
    /// an ambiguous key. `text` is the JSON that `before` was parsed from.
    ///
    /// # Errors
    /// An object has the same key twice, or a changed field's object also has a key that differs
    /// from the field only in case (runtimes in Go take both for one field).
    pub fn check_change(&self, before: &Self, text: &[u8]) -> Result<(), OciConfigError> {
        let differs = go_keys::check(text).map_err(OciConfigError::AmbiguousKey)?;
        if differs {
            go_keys::check_change(&before.0, &self.0).map_err(OciConfigError::AmbiguousKey)?;
        }
        Ok(())
    }

    /// Wraps parsed JSON.
    pub fn from_value(value: Value) -> Result<Self, OciConfigError> {
        if !value.is_object() {
            return Err(OciConfigError::NotAnObject { found: kind(&value) });
        }
        if deeper_than(&value, MAX_DEPTH) {
            return Err(OciConfigError::TooDeep { limit: MAX_DEPTH });
        }
        Ok(Self(value))
    }

    /// The JSON.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The JSON, for changes that are not adjustments.
    pub fn value_mut(&mut self) -> &mut Value {
        &mut self.0
    }

    /// Unwraps the JSON.
    pub fn into_value(self) -> Value {
        self.0
    }

    /// Compact JSON with the key order and number text of the input, except that exponents are
    /// written as `e+5` or `e-5`.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    /// The value at a path of keys; `None` if it is missing or null.
    pub fn get(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(&self.0, |v, key| v.get(key)).filter(|v| !v.is_null())
    }

    /// `ociVersion`.
    pub fn oci_version(&self) -> Option<&str> {
        self.text(&["ociVersion"])
    }

    /// `annotations` whose values are strings, in order.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        let map = self.get(&["annotations"]).and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
    }

    /// One annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.text(&["annotations", key])
    }

    /// `hostname`.
    pub fn hostname(&self) -> Option<&str> {
        self.text(&["hostname"])
    }

    /// `root.path`, relative to the bundle unless absolute.
    pub fn rootfs_path(&self) -> Option<&str> {
        self.text(&["root", "path"])
    }

    /// `process`, of the form that `exec --process` takes.
    pub fn process(&self) -> Option<&Value> {
        self.get(&["process"])
    }

    /// `process.args`.
    pub fn args(&self) -> Vec<&str> {
        self.texts(&["process", "args"])
    }

    /// `process.env`, as `NAME=value`.
    pub fn env(&self) -> Vec<&str> {
        self.texts(&["process", "env"])
    }

    /// `process.cwd`.
    pub fn cwd(&self) -> Option<&str> {
        self.text(&["process", "cwd"])
    }

    /// `process.terminal`.
    pub fn terminal(&self) -> bool {
        self.get(&["process", "terminal"]).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The entries of `mounts` that have a destination.
    pub fn mounts(&self) -> impl Iterator<Item = OciMount<'_>> {
        let list = self.get(&["mounts"]).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|m| {
            Some(OciMount {
                destination: text(m, "destination")?,
                source: text(m, "source"),
                kind: text(m, "type"),
            })
        })
    }

    /// `linux.cgroupsPath`.
    pub fn cgroups_path(&self) -> Option<&str> {
        self.text(&["linux", "cgroupsPath"])
    }

    /// `linux.resources`, of the form that `update --resources` takes.
    pub fn resources(&self) -> Option<&Value> {
        self.get(&["linux", "resources"])
    }

    /// `linux.namespaces`.
    pub fn namespaces(&self) -> impl Iterator<Item = OciNamespace<'_>> {
        let list = self.get(&["linux", "namespaces"]).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|n| {
            Some(OciNamespace {
                kind: text(n, "type")?,
                path: text(n, "path").filter(|p| !p.is_empty()),
            })
        })
    }

    /// Whether the process has a namespace of this kind that differs from the runtime's.
    pub fn has_namespace(&self, kind: &str) -> bool {
        self.namespaces().any(|n| n.kind == kind)
    }

    /// `linux.rootfsPropagation`.
    pub fn rootfs_propagation(&self) -> Option<&str> {
        self.text(&["linux", "rootfsPropagation"])
    }

    fn text(&self, path: &[&str]) -> Option<&str> {
        self.get(path)?.as_str()
    }

    fn texts(&self, path: &[&str]) -> Vec<&str> {
        self.get(path)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }
}

fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}

/// Whether arrays and objects are nested more than `levels` deep.
fn deeper_than(value: &Value, levels: usize) -> bool {
    // The recursion stops at `levels`.
    match (value, levels) {
        (Value::Array(_) | Value::Object(_), 0) => true,
        (Value::Array(list), _) => list.iter().any(|v| deeper_than(v, levels - 1)),
        (Value::Object(map), _) => map.values().any(|v| deeper_than(v, levels - 1)),
        _ => false,
    }
}

/// Returns the number of commas and opening brackets outside of strings: at least one less than
/// that of values.
fn separators(bytes: &[u8]) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// Whether an object begins with [`RESERVED`]. The same text within a string does not match: its
/// quotes are escaped there.
fn has_reserved_key(bytes: &[u8]) -> bool {
    let quoted = format!("\"{RESERVED}\"");
    let mut rest = bytes;
    while let Some(at) = rest.windows(quoted.len()).position(|w| w == quoted.as_bytes()) {
        if rest[..at].iter().rev().find(|b| !b.is_ascii_whitespace()) == Some(&b'{') {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// Reason why bytes or JSON are not an OCI config.
#[derive(Debug, thiserror::Error)]
pub enum OciConfigError {
    /// More bytes than [`MAX_OCI_CONFIG`](crate::MAX_OCI_CONFIG).
    #[error("OCI config has {size} bytes, more than {limit}")]
    TooLarge {
        /// Size in bytes.
        size: usize,
        /// Largest allowed size.
        limit: usize,
    },
    /// More values than [`MAX_VALUES`](crate::MAX_VALUES).
    #[error("OCI config has more than {limit} values")]
    TooManyValues {
        /// Largest allowed number of values.
        limit: usize,
    },
    /// Not JSON, or nested beyond the recursion limit of `serde_json`; the source has line and
    /// column.
    #[error("OCI config is not valid JSON")]
    Syntax(#[from] serde_json::Error),
    /// Nested more deeply than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("OCI config is nested more than {limit} levels deep")]
    TooDeep {
        /// Largest allowed number of levels.
        limit: usize,
    },
    /// A key that occurs twice in an object, possibly with a difference in case. The text names the
    /// key and its object, and also the field if the keys differ in case.
    #[error("ambiguous key: {0}")]
    AmbiguousKey(String),
    /// JSON, but not an object.
    #[error("OCI config is {found}, not an object")]
    NotAnObject {
        /// Type of the value.
        found: String,
    },
    /// A key that `serde_json` reserves for numbers. Parsing would change an OCI config that has
    /// this key.
    #[error("OCI config uses the reserved key {key:?}")]
    ReservedKey {
        /// The key.
        key: &'static str,
    },
}

impl OciConfigError {
    /// Line and column of a syntax error, both from 1. An error before the first character of a
    /// line has column 0.
    pub fn position(&self) -> Option<(usize, usize)> {
        match self {
            Self::Syntax(e) => Some((e.line(), e.column())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<String, String> {
        OciConfig::parse(text.as_bytes()).map(|d| String::from_utf8(d.to_bytes()).unwrap()).map_err(
            |e| match e.position() {
                Some((line, column)) => format!("{line}:{column}"),
                None => e.to_string(),
            },
        )
    }

    #[test]
    fn an_oci_config_is_written_as_it_was_parsed() {
        for same in [
            r#"{"z":1,"a":{"y":null,"b":[1.50,1e+400,-0,18446744073709551616]},"unknown":true}"#,
            r#"{"annotations":{"k":"$serde_json::private::Number"}}"#,
            "{}",
        ] {
            assert_eq!(check(same), Ok(same.to_owned()));
        }
        assert_eq!(check(r#"{"a":1E5}"#), Ok(r#"{"a":1e+5}"#.into()));
        assert_eq!(check(" {\n\"a\" :\t1 } "), Ok(r#"{"a":1}"#.into()));
    }

    #[test]
    fn invalid_oci_configs_are_refused() {
        assert_eq!(check("{\n \"a\": }"), Err("2:7".into()));
        assert_eq!(check(""), Err("1:0".into()));
        assert_eq!(check("{} x"), Ok("{}".into()));
        assert_eq!(check("[]"), Err("OCI config is an array, not an object".into()));
        assert_eq!(check("1e5"), Err("OCI config is the number 1e+5, not an object".into()));
        assert!(check(&format!("{}{}", r#"{"a":"#.repeat(100_000), "1")).is_err());
        assert!(
            check(r#"{"a":{ "$serde_json::private::Number":"5"}}"#)
                .unwrap_err()
                .contains("reserved key")
        );
        let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_OCI_CONFIG));
        assert!(check(&large).unwrap_err().contains("more than"));
        // It took 2 GB with five million elements, each in several forms.
        let args = |number: usize| format!(r#"{{"args":["{}"]}}"#, "\",\"".repeat(number));
        let many = check(&args(MAX_VALUES)).unwrap_err();
        assert_eq!(many, "OCI config has more than 200000 values");
        assert!(check(&args(MAX_VALUES - 2)).is_ok());
        let text =
            format!(r#"{{"a":"{}\\","b":"\"{}"}}"#, ",[{".repeat(99_999), ",[{".repeat(99_999));
        assert!(check(&text).is_ok());
        let mut deep = Value::Null;
        for _ in 0..=MAX_DEPTH {
            deep = Value::Array(vec![deep]);
        }
        assert!(matches!(
            OciConfig::from_value(serde_json::json!({ "a": deep })),
            Err(OciConfigError::TooDeep { .. })
        ));
    }

    #[test]
    fn accessors_skip_values_of_a_wrong_type() {
        let wrong = OciConfig::parse(
            br#"{"process":5,"mounts":{"a":1},"annotations":[1],"linux":{"namespaces":[1,{"type":2}]}}"#,
        )
        .unwrap();
        assert_eq!(wrong.args(), Vec::<&str>::new());
        assert_eq!(
            wrong.mounts().count() + wrong.annotations().count() + wrong.namespaces().count(),
            0
        );
        assert_eq!((wrong.cwd(), wrong.terminal(), wrong.cgroups_path()), (None, false, None));
        let right = OciConfig::parse(
            br#"{"annotations":{"b":"1","a":2},"mounts":[{"destination":"/a"}],"linux":{"namespaces":[{"type":"pid","path":""}]}}"#,
        )
        .unwrap();
        assert_eq!(right.annotations().collect::<Vec<_>>(), [("b", "1")]);
        assert_eq!(
            right.mounts().next(),
            Some(OciMount { destination: "/a", source: None, kind: None })
        );
        assert_eq!(right.namespaces().next(), Some(OciNamespace { kind: "pid", path: None }));
    }
}
