//! JSON pointers to the values of an OCI config that an adjustment may change according to the
//! table, and the search for changes of other values.

use crate::protocol::json_name;
use crate::table::{Key, Row};
use nri_api::removal_key;
use serde_json::{Map, Value};

/// Lists of the OCI config with named entries, and the field that holds the name. Entries of the
/// environment have no fields; their name is the text before `=`.
const NAMED: &[(&str, &str)] = &[
    ("/process/env", ""),
    ("/process/rlimits", "type"),
    ("/mounts", "destination"),
    ("/linux/devices", "path"),
    ("/linux/namespaces", "type"),
    ("/linux/resources/hugepageLimits", "pageSize"),
];

/// Returns the value that an adjustment in protojson has at the path of a row.
pub(crate) fn requested<'a>(adjust: &'a Value, row: &Row) -> Option<&'a Value> {
    row.path.split('.').try_fold(adjust, |at, name| at.get(json_name(name)))
}

/// Returns JSON pointers to all values that an adjustment may change: the pointers in the rows of
/// the adjusted fields, with the keys of the adjustment in place of `*`.
pub(crate) fn allowed(adjust: &Value, rows: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    for row in rows {
        let Some(requested) = requested(adjust, row) else { continue };
        let entries = requested.as_array().into_iter().flatten();
        let keys: Vec<&str> = match row.key {
            Key::Whole => vec![""],
            Key::Map | Key::Names => {
                requested.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect()
            }
            Key::By(name) | Key::Named(name) => {
                entries.filter_map(|entry| entry.get(name)?.as_str()).collect()
            }
        };
        for key in keys {
            let is_removable = matches!(row.key, Key::Map | Key::By(_));
            let key = escaped(removal_key(key).filter(|_| is_removable).unwrap_or(key));
            found.extend(row.pointers.iter().map(|pointer| pointer.replace('*', &key)));
        }
    }
    found
}

/// Returns the changes that no pointer of `allowed` covers, as pointers into [`by_name`] of the OCI
/// config.
pub(crate) fn outside(before: &Value, after: &Value, allowed: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    walk("", Some(&by_name(before)), Some(&by_name(after)), allowed, &mut found);
    found
}

/// Returns an OCI config with objects in place of its named lists, so that the position of an entry
/// in such a list does not count as a difference.
pub(crate) fn by_name(config: &Value) -> Value {
    let mut copy = config.clone();
    for (list, name) in NAMED {
        let Some(entries) = copy.pointer_mut(list) else { continue };
        let mut all = Map::new();
        for entry in entries.as_array().into_iter().flatten() {
            let text = if name.is_empty() {
                entry.as_str()
            } else {
                entry.get(name).and_then(Value::as_str)
            };
            let mut key = text.unwrap_or_default().to_owned();
            if name.is_empty() {
                key.truncate(key.find('=').unwrap_or(key.len()));
            }
            let of_name = all.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            of_name.as_array_mut().unwrap().push(entry.clone());
        }
        *entries = Value::Object(all);
    }
    copy
}

/// Collects the pointers at or below `path` to values that differ between `a` and `b` and that
/// `allowed` does not cover.
fn walk(
    path: &str,
    a: Option<&Value>,
    b: Option<&Value>,
    allowed: &[String],
    found: &mut Vec<String>,
) {
    let below = format!("{path}/");
    let is_covered = |pointer: &String| pointer == path || path.starts_with(&format!("{pointer}/"));
    let is_new_entry = |pointer: &String| {
        let list = pointer.strip_suffix("/+").filter(|_| a.is_none());
        let entry = list.and_then(|list| path.strip_prefix(list)?.strip_prefix('/'));
        entry.is_some_and(|entry| !entry.contains('/'))
    };
    if a == b || allowed.iter().any(|pointer| is_covered(pointer) || is_new_entry(pointer)) {
        return;
    }
    let empty = Value::Object(Map::new());
    // A new object or list is no difference if an allowed pointer leads into it.
    let is_new_parent = a.is_none() && allowed.iter().any(|pointer| pointer.starts_with(&below));
    match (if is_new_parent { Some(&empty) } else { a }, b) {
        (Some(Value::Object(x)), Some(Value::Object(y))) => {
            for key in x.keys().chain(y.keys().filter(|key| !x.contains_key(*key))) {
                walk(&format!("{below}{}", escaped(key)), x.get(key), y.get(key), allowed, found);
            }
        }
        (x, Some(Value::Array(y))) if is_new_parent || matches!(x, Some(Value::Array(_))) => {
            let x = x.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            for i in 0..x.len().max(y.len()) {
                walk(&format!("{below}{i}"), x.get(i), y.get(i), allowed, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

/// Escapes a key for use as a step of a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
