//! Keys that runtimes in Go read differently from this crate.
//!
//! `encoding/json` takes `"Process"` for `"process"`, and reads an object that occurs twice into
//! the same value. If a plugin changed one of the two objects, the other would override the change.

use nri_api::{Form, fields};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::LazyLock,
};

/// Names in OCI configs that this crate reads or changes and that no field's path has
/// (<https://github.com/opencontainers/runtime-spec/blob/main/specs-go/config.go>).
const NAMES: &[&str] = &[
    "access",
    "additionalGids",
    "allow",
    "apparmorProfile",
    "architectures",
    "capabilities",
    "class",
    "containerID",
    "createContainer",
    "createRuntime",
    "cwd",
    "destination",
    "domainname",
    "fileMode",
    "flags",
    "gid",
    "gidMappings",
    "hard",
    "hostID",
    "hostname",
    "major",
    "maskedPaths",
    "minor",
    "mode",
    "mountLabel",
    "name",
    "network",
    "nice",
    "noNewPrivileges",
    "nodes",
    "ociVersion",
    "options",
    "pageSize",
    "path",
    "policy",
    "poststart",
    "poststop",
    "prestart",
    "priority",
    "rate",
    "rdma",
    "readonly",
    "readonlyPaths",
    "resources",
    "root",
    "rootfsPropagation",
    "runtime",
    "selinuxLabel",
    "size",
    "soft",
    "source",
    "startContainer",
    "syscalls",
    "terminal",
    "timeout",
    "type",
    "uid",
    "uidMappings",
    "user",
];

/// All names by their case-folded forms.
static BY_FOLDED: LazyLock<HashMap<String, &str>> = LazyLock::new(|| {
    let names = fields().flat_map(|row| row.path).chain(NAMES);
    names.map(|name| (folded(name), *name)).collect()
});

/// Fields that hold maps: the keys of a map are data, not names of fields.
static MAPS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let maps = fields().filter(|row| row.form == Form::Map);
    maps.map(|row| row.key()).chain(["rdma"]).collect()
});

/// Fails if an object of the OCI config has the same key twice: one of the values would be lost.
/// The error names the key and the object. Returns whether a key differs from its field in case.
pub(crate) fn check(bytes: &[u8]) -> Result<bool, String> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut differs = false;
    let walk = Walk { path: String::new(), differs: &mut differs };
    walk.deserialize(&mut json).map_err(|e| e.to_string())?;
    Ok(differs)
}

/// Fails if the adjustment changed a field that its object has under several keys that differ only
/// in case. Runtimes in Go take these keys for one field. The error names a key and the object.
pub(crate) fn check_change(before: &Value, after: &Value) -> Result<(), String> {
    check_values(before, after, "")
}

fn check_values(before: &Value, after: &Value, path: &str) -> Result<(), String> {
    match after {
        _ if before == after => Ok(()),
        Value::Object(fields) => {
            let mut keys: HashMap<&str, Vec<&String>> = HashMap::new();
            for key in fields.keys() {
                if let Some(field) = BY_FOLDED.get(&folded(key)) {
                    keys.entry(field).or_default().push(key);
                }
            }
            for (field, keys) in keys {
                let same = keys.iter().all(|key| before.get(key) == after.get(key));
                match keys.as_slice() {
                    _ if same || MAPS.contains(field) && keys.len() == 1 => {}
                    [key] => check_values(&before[*key], &after[*key], &within(path, key))?,
                    several => {
                        let other =
                            several.iter().find(|key| **key != field).unwrap_or(&several[0]);
                        return Err(format!(
                            "{other:?} in {}, which runtimes in Go take for {field:?}",
                            place(path)
                        ));
                    }
                }
            }
            Ok(())
        }
        Value::Array(list) => {
            let old = before.as_array().map_or(&[][..], Vec::as_slice);
            let mut new = list.iter().filter(|item| !old.contains(item));
            new.try_for_each(|item| check_values(&Value::Null, item, path))
        }
        _ => Ok(()),
    }
}

fn within(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn place(path: &str) -> &str {
    if path.is_empty() { "the OCI config" } else { path }
}

/// Visitor that checks the keys of the value at `path`.
struct Walk<'a> {
    path: String,
    /// Set if a key differs from its field in case.
    differs: &'a mut bool,
}

/// Folds the case of a key as Go does: letters with the same upper case become equal.
fn folded(key: &str) -> String {
    key.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { path, differs } = self;
        while list.next_element_seed(Walk { path: path.clone(), differs })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { path, differs } = self;
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let Some(field) = BY_FOLDED.get(&folded(&key)) else {
                // Fields outside of the names are not checked: this crate does not change them one
                // by one.
                map.next_value::<serde::de::IgnoredAny>()?;
                continue;
            };
            *differs |= *field != key;
            if !seen.insert(key.clone()) {
                let place = place(&path);
                return Err(A::Error::custom(format!("{key:?} twice in {place}")));
            }
            if MAPS.contains(field) {
                map.next_value::<serde::de::IgnoredAny>()?;
            } else {
                map.next_value_seed(Walk { path: within(&path, &key), differs })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_are_errors_and_keys_in_another_case_are_found() {
        for (text, expected) in [
            (
                r#"{"linux":{"resources":{"memory":{"limit":1,"limit":2}}}}"#,
                r#""limit" twice in linux.resources.memory"#,
            ),
            (r#"{"mounts":[{"type":"a"},{"type":"b","type":"c"}]}"#, r#""type" twice in mounts"#),
            (r#"{"Linux":{"cpu":1,"cpu":1}}"#, r#""cpu" twice in Linux"#),
        ] {
            let error = check(text.as_bytes()).unwrap_err();
            let expected = format!("{expected} at line 1 column ");
            assert!(error.starts_with(&expected), "{error}");
        }
        for (text, differs) in [
            (r#"{"annotations":{"Process":"","process":"","a":"","a":""}}"#, false),
            (r#"{"linux":{"sysctl":{"A":1,"a":2}},"unknown":{"Process":1,"x":1,"x":2}}"#, false),
            (r#"{"process":{"env":[1.5,true,null,-1,18446744073709551616]}}"#, false),
            (r#"{"process":{}} {"process":{}}"#, false),
            (r#"{"process":{},"Process":{}}"#, true),
            (r#"{"linux":{"resources":{"CPU":{}}}}"#, true),
            // Go takes the long s for an s.
            ("{\"mount\u{17f}\":[]}", true),
        ] {
            assert_eq!(check(text.as_bytes()), Ok(differs), "{text}");
        }
    }

    #[test]
    fn changes_of_ambiguous_fields_are_errors() {
        let change = |before: &str, after: &str| {
            let parse = |text| serde_json::from_str(text).unwrap();
            check_change(&parse(before), &parse(after)).err().unwrap_or_default()
        };
        let both = r#"{"process":{"env":[]},"Process":{}}"#;
        let text = r#""Process" in the OCI config, which runtimes in Go take for "process""#;
        assert_eq!(change(both, r#"{"process":{"env":["A=b"]},"Process":{}}"#), text);
        assert_eq!(change(both, r#"{"process":{"env":[]},"Process":{},"hostname":"x"}"#), "");
        // The plugin adds the usual key.
        let other = r#"{"linux":{"resources":{"CPU":{"cpus":"0"}}}}"#;
        let text = r#""CPU" in linux.resources, which runtimes in Go take for "cpu""#;
        let added = r#"{"linux":{"resources":{"CPU":{"cpus":"0"},"cpu":{"cpus":"1"}}}}"#;
        assert_eq!(change(other, added), text);
        let elsewhere = r#"{"linux":{"resources":{"CPU":{"cpus":"0"},"pids":{"limit":1}}}}"#;
        assert_eq!(change(other, elsewhere), "");
        let mounts = r#"{"mounts":[{"type":"a","Type":"b"}]}"#;
        assert_eq!(change(mounts, r#"{"mounts":[{"type":"a","Type":"b"},{"type":"c"}]}"#), "");
        let changed = change(mounts, r#"{"mounts":[{"type":"c","Type":"b"}]}"#);
        assert_eq!(changed, r#""Type" in mounts, which runtimes in Go take for "type""#);
        let annotations = r#"{"annotations":{"env":"a","Env":"b"}}"#;
        assert_eq!(change(annotations, r#"{"annotations":{"env":"c","Env":"b"}}"#), "");
    }
}
