//! What of an OCI config an adjustment may change, by the table, and whether it changed more.

use crate::table::{Key, Row};
use nri_api::removal_key;
use serde_json::{Map, Value};

/// Lists of the OCI config whose entries have names, and the field that holds the name; environment
/// entries are `NAME=VALUE`.
const NAMED: &[(&str, &str)] = &[
    ("/process/env", ""),
    ("/process/rlimits", "type"),
    ("/mounts", "destination"),
    ("/linux/devices", "path"),
    ("/linux/namespaces", "type"),
    ("/linux/resources/hugepageLimits", "pageSize"),
];

/// What is at a row's path in an adjustment, which is protojson.
pub(crate) fn requested<'a>(adjust: &'a Value, row: &Row) -> Option<&'a Value> {
    row.path.split('.').try_fold(adjust, |at, name| at.get(json_name(name)))
}

/// protojson's spelling of a field's name.
fn json_name(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    let mut upper = false;
    let rest = rest.chars().filter_map(|c| {
        let this = if std::mem::replace(&mut upper, c == '_') { c.to_ascii_uppercase() } else { c };
        (c != '_').then_some(this)
    });
    first.chars().chain(rest).collect()
}

/// The places that the rows of an adjustment give it.
pub(crate) fn places(adjust: &Value, rows: &[Row]) -> Vec<String> {
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
            let marked = matches!(row.key, Key::Map | Key::By(_));
            let key = escaped(removal_key(key).filter(|_| marked).unwrap_or(key));
            found.extend(row.places.iter().map(|place| place.replace('*', &key)));
        }
    }
    found
}

/// Differences that no place covers, as pointers into [`by_name`] of the OCI config.
pub(crate) fn outside(before: &Value, after: &Value, places: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    walk("", Some(&by_name(before)), Some(&by_name(after)), places, &mut found);
    found
}

/// An OCI config with its named lists as objects: where an entry stands in them is no difference
/// here.
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
            let same = all.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            same.as_array_mut().unwrap().push(entry.clone());
        }
        *entries = Value::Object(all);
    }
    copy
}

fn walk(
    path: &str,
    a: Option<&Value>,
    b: Option<&Value>,
    places: &[String],
    found: &mut Vec<String>,
) {
    let below = format!("{path}/");
    let whole = |place: &String| place == path || path.starts_with(&format!("{place}/"));
    let added = |place: &String| {
        let list = place.strip_suffix("/+").filter(|_| a.is_none());
        let entry = list.and_then(|list| path.strip_prefix(list)?.strip_prefix('/'));
        entry.is_some_and(|entry| !entry.contains('/'))
    };
    if a == b || places.iter().any(|place| whole(place) || added(place)) {
        return;
    }
    let nothing = Value::Object(Map::new());
    // What had to be made to hold a place is itself no difference.
    let made = a.is_none() && places.iter().any(|place| place.starts_with(&below));
    match (if made { Some(&nothing) } else { a }, b) {
        (Some(Value::Object(x)), Some(Value::Object(y))) => {
            for key in x.keys().chain(y.keys().filter(|key| !x.contains_key(*key))) {
                walk(&format!("{below}{}", escaped(key)), x.get(key), y.get(key), places, found);
            }
        }
        (x, Some(Value::Array(y))) if made || matches!(x, Some(Value::Array(_))) => {
            let x = x.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            for i in 0..x.len().max(y.len()) {
                walk(&format!("{below}{i}"), x.get(i), y.get(i), places, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

/// A key as a step of a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
