//! [`config_changes`] and [`resource_changes`]: the fields of the table that differ between two OCI
//! configs or two resources objects. A field with entries yields a change for each entry.

use crate::json::number::{ByValue, same_value};
use crate::resources::diff::overlay;
use nri_api::{FIELDS, FieldRow, Form, RESOURCE_FIELDS, ResourceField, entry_name};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

/// A field, or an entry of a field, that differs.
#[derive(Debug, Clone)]
pub struct ChangedField {
    /// The row of the field.
    pub row: FieldRow,
    /// Key of the entry, if the field has keys.
    pub key: Option<String>,
    /// JSON pointer into the OCI config (RFC 6901); `-` stands for an element of a list.
    pub pointer: String,
    /// Value before; `None` if there was none.
    pub before: Option<Value>,
    /// Value after; `None` if it was removed.
    pub after: Option<Value>,
}

impl ChangedField {
    /// Returns the name of the field or entry for messages.
    pub fn name(&self) -> String {
        match &self.key {
            Some(key) => entry_name(self.row.name, key),
            None => self.row.name.to_owned(),
        }
    }

    /// Makes this change of `linux.resources`.
    pub fn apply(&self, resources: &mut Value) {
        let key = self.key.as_deref();
        let Some(after) = self.after.clone() else {
            return remove(resources, self.row.path, (self.row.form, key));
        };
        let value = match (self.row.form, key) {
            (Form::Map, Some(key)) => json!({key: after}),
            (Form::List(_), _) => json!([after]),
            _ => after,
        };
        let nest = |value, key: &&str| json!({*key: value});
        overlay(resources, &self.row.path.iter().rev().fold(value, nest));
    }
}

/// Removes a field or an entry of it, and the object or list that is empty then.
fn remove(value: &mut Value, path: &[&str], entry: (Form, Option<&str>)) {
    match (path, entry, value) {
        ([], (_, Some(key)), Value::Object(entries)) => drop(entries.remove(key)),
        ([], (Form::List(name), Some(key)), Value::Array(entries)) => {
            entries.retain(|entry| entry.get(name).and_then(Value::as_str) != Some(key));
        }
        ([key], (_, None), Value::Object(fields)) => drop(fields.remove(*key)),
        ([key, rest @ ..], _, Value::Object(fields)) => {
            let Some(value) = fields.get_mut(*key) else { return };
            remove(value, rest, entry);
            if *value == json!({}) || *value == json!([]) {
                fields.remove(*key);
            }
        }
        _ => {}
    }
}

/// Returns the fields that differ between two OCI configs, in the order of the table.
pub fn config_changes(before: &Value, after: &Value) -> Vec<ChangedField> {
    let mut found = Vec::new();
    for row in FIELDS {
        add_changes(*row, "", before, after, &mut found);
    }
    let resources = |config| at(config, &["linux", "resources"]).unwrap_or(&Value::Null);
    found.extend(resource_changes(resources(before), resources(after)));
    found
}

/// Returns the fields that differ between two `linux.resources`, in the order of the table.
pub fn resource_changes(before: &Value, after: &Value) -> Vec<ChangedField> {
    let mut found = Vec::new();
    for row in RESOURCE_FIELDS.iter().map(ResourceField::row) {
        add_changes(row, "/linux/resources", before, after, &mut found);
    }
    found
}

/// Adds the changes of one field. Its path begins at the values, which are at `place` in the OCI
/// config.
fn add_changes(
    row: FieldRow,
    place: &str,
    before: &Value,
    after: &Value,
    found: &mut Vec<ChangedField>,
) {
    let (old, new) = (at(before, row.path), at(after, row.path));
    let is_same = match (old, new) {
        (Some(old), Some(new)) => same_value(old, new),
        (old, new) => old.is_none() && new.is_none(),
    };
    if is_same || row.path.is_empty() {
        return;
    }
    let pointer = format!("{place}/{}", row.path.join("/"));
    match row.form {
        Form::Parts => {}
        Form::Value => {
            let (before, after) = (old.cloned(), new.cloned());
            found.push(ChangedField { row, key: None, pointer, before, after });
        }
        Form::Map | Form::List(_) | Form::Variables => {
            let (old, new) = (by_key(row.form, old), by_key(row.form, new));
            for (key, before, after) in differences(&old, &new) {
                let step = if row.form == Form::Map { &escaped(key) } else { "-" };
                let (key, pointer) = (Some(key.to_owned()), format!("{pointer}/{step}"));
                found.push(ChangedField { row, key, pointer, before, after });
            }
        }
        Form::Appended => add_appended(row, None, &pointer, (old, new), found),
        Form::AppendedByKey => {
            for (key, new) in new.and_then(Value::as_object).into_iter().flatten() {
                let pointer = format!("{pointer}/{}", escaped(key));
                let old = old.and_then(|old| old.get(key));
                add_appended(row, Some(key), &pointer, (old, Some(new)), found);
            }
        }
    }
}

/// Adds the elements at the end of a list that it did not have before.
fn add_appended(
    row: FieldRow,
    key: Option<&String>,
    pointer: &str,
    (old, new): (Option<&Value>, Option<&Value>),
    found: &mut Vec<ChangedField>,
) {
    let old = old.and_then(Value::as_array).map_or(0, Vec::len);
    for after in new.and_then(Value::as_array).into_iter().flatten().skip(old) {
        let (key, pointer) = (key.cloned(), format!("{pointer}/-"));
        found.push(ChangedField { row, key, pointer, before: None, after: Some(after.clone()) });
    }
}

/// The values of each key, in their order: a list may have several.
type ByKey<'a> = BTreeMap<Cow<'a, str>, Vec<Cow<'a, Value>>>;

/// Returns the entries of a map or list; those without a key, and nulls, are left out.
fn by_key(form: Form, value: Option<&Value>) -> ByKey<'_> {
    let mut found = ByKey::new();
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    for (key, value) in fields.filter(|(_, value)| !value.is_null()) {
        found.entry(Cow::Borrowed(key)).or_default().push(Cow::Borrowed(value));
    }
    for element in value.and_then(Value::as_array).into_iter().flatten() {
        let entry = match form {
            Form::List(key) => {
                element.get(key).and_then(Value::as_str).map(|key| (key, Cow::Borrowed(element)))
            }
            _ => element.as_str().map(|text| {
                let (name, value) = text.split_once('=').unwrap_or((text, ""));
                (name, Cow::Owned(Value::from(value)))
            }),
        };
        if let Some((key, value)) = entry {
            found.entry(Cow::Borrowed(key)).or_default().push(value);
        }
    }
    found
}

/// A key, and its value before and after.
type Difference<'a> = (&'a str, Option<Value>, Option<Value>);

/// Returns each key with a new value, then each key that was removed. Of several old values of a
/// key, the last one counts, because runtimes set one after the other.
fn differences<'a>(before: &'a ByKey<'_>, after: &'a ByKey<'_>) -> Vec<Difference<'a>> {
    let last = |values: &[Cow<'_, Value>]| values.last().map(|value| Value::clone(value));
    let mut found = Vec::new();
    for (key, new) in after {
        let old = before.get(key).map_or(&[][..], Vec::as_slice);
        let mut known: HashSet<_> = old.iter().map(|value| ByValue(value)).collect();
        let added: Vec<_> = new.iter().filter(|value| known.insert(ByValue(value))).collect();
        let is_last_same = old.last().zip(new.last()).is_some_and(|(a, b)| same_value(a, b));
        if added.is_empty() && !is_last_same {
            found.push((&**key, last(old), last(new)));
        }
        found.extend(added.iter().map(|new| (&**key, last(old), Some(Value::clone(new)))));
    }
    let removed = before.iter().filter(|(key, _)| !after.contains_key(*key));
    found.extend(removed.map(|(key, old)| (&**key, last(old), None)));
    found
}

/// Returns the value at a path; `None` for null, which means not set.
fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
}

/// Escapes a key as a step of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the changes, each as name, pointer, value before and value after.
    fn changes(before: Value, after: Value) -> Vec<String> {
        let text = |value: Option<Value>| value.map_or("-".to_owned(), |v| v.to_string());
        let line = |c: ChangedField| {
            format!("{} {} {} {}", c.name(), c.pointer, text(c.before), text(c.after))
        };
        config_changes(&before, &after).into_iter().map(line).collect()
    }

    #[test]
    fn each_form_has_its_changes() {
        let before = json!({
            "annotations": {"gone": "x", "kept": "y"}, "process": {"env": ["A=1", "B", 5]},
            "mounts": [{"destination": "/m"}, {"type": "odd"}],
            "hooks": {"poststop": [{"path": "/a"}]},
            "linux": {"cgroupsPath": "/c", "resources": {
                "pids": null, "memory": {"limit": 1e3}, "devices": [{"allow": false}]}},
        });
        let after = json!({
            "annotations": {"a/b": "x", "kept": "y"}, "process": {"env": ["A=2", "B", "C=3"]},
            "mounts": [{"type": "odd"}, {"destination": "/m"}, {"destination": "/n"}],
            "hooks": {"poststop": [{"path": "/a"}, {"path": "/b"}]},
            "linux": {"cgroupsPath": "/d", "intelRdt": {"l3CacheSchema": "L3:0=1"}, "resources": {
                "pids": {"limit": 7}, "memory": {"limit": 1000},
                "hugepageLimits": [{"pageSize": "2MB", "limit": 1}],
                "devices": [{"allow": false}, {"allow": true}]}},
        });
        let expected = [
            r#"annotations[a/b] /annotations/a~1b - "x""#,
            r#"annotations[gone] /annotations/gone "x" -"#,
            r#"env[A] /process/env/- "1" "2""#,
            r#"env[C] /process/env/- - "3""#,
            r#"mounts[/n] /mounts/- - {"destination":"/n"}"#,
            r#"cgroups_path /linux/cgroupsPath "/c" "/d""#,
            r#"rdt.l3CacheSchema /linux/intelRdt/l3CacheSchema - "L3:0=1""#,
            r#"hooks[poststop] /hooks/poststop/- - {"path":"/b"}"#,
            "pids.limit /linux/resources/pids/limit - 7",
            "hugepageLimits[2MB] /linux/resources/hugepageLimits/- - \
             {\"pageSize\":\"2MB\",\"limit\":1}",
            r#"resources.devices /linux/resources/devices/- - {"allow":true}"#,
        ];
        assert_eq!(changes(before, after.clone()), expected);
        assert!(changes(after.clone(), after).is_empty());
    }

    #[test]
    fn each_of_several_values_of_a_key_counts() {
        let mount = |source: &str| json!({"destination": "/m", "source": source});
        let changed = |old: &[&str], new: &[&str]| {
            let config = |sources: &[&str]| {
                let mounts: Vec<_> = sources.iter().map(|source| mount(source)).collect();
                json!({ "mounts": mounts })
            };
            let source = |value: Option<Value>| {
                value.map_or("-".to_owned(), |mount| mount["source"].as_str().unwrap().to_owned())
            };
            let all = config_changes(&config(old), &config(new)).into_iter();
            all.map(|c| source(c.before) + ">" + &source(c.after)).collect::<Vec<_>>()
        };
        assert_eq!(changed(&["a", "b"], &["a", "c"]), ["b>c"]);
        assert_eq!(changed(&["a"], &["b", "c"]), ["a>b", "a>c"]);
        assert_eq!(changed(&["a", "b"], &["a"]), ["b>a"]);
        assert_eq!(changed(&["a", "b"], &[]), ["b>-"]);
        assert!(changed(&["a", "b"], &["a", "b"]).is_empty());
    }

    #[test]
    fn changes_that_are_made_in_turn_give_the_other_resources() {
        let before = json!({
            "memory": {"limit": 1, "swap": 2}, "cpu": {"cpus": "0"},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 1}, {"pageSize": "1GB", "limit": 7}],
        });
        let after = json!({
            "memory": {"limit": 3, "swap": 2}, "pids": {"limit": 4}, "unified": {"a.b": "5"},
            "hugepageLimits": [{"pageSize": "1GB", "limit": 7}],
        });
        for (from, to) in [(&before, &after), (&after, &before)] {
            let mut resources = from.clone();
            resource_changes(from, to).iter().for_each(|change| change.apply(&mut resources));
            assert!(resource_changes(&resources, to).is_empty(), "{resources}");
            assert_eq!(resources.get("unified").is_some(), to.get("unified").is_some());
        }
    }
}
