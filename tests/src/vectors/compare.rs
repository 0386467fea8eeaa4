//! Comparison of expected and actual results by meaning: an empty value equals an absent one where
//! the format cannot express absence, and numbers are compared by value.

use super::difference::Difference;
use nri_api::proto::{ContainerUpdate, LinuxCPU, LinuxMemory, OwningPlugins};
use protobuf::{MessageField, MessageFull};
use serde_json::{Map, Number, Value};

/// Returns the first difference between two OCI configs; nulls, empty objects and empty lists are
/// ignored.
pub(super) fn configs(expected: &Value, got: &Value) -> Result<(), Difference> {
    values("spec", &pruned(expected), &pruned(got))
}

/// Returns the first difference between two sets of owners; entries without owners are ignored.
pub(super) fn owners(expected: &OwningPlugins, got: &OwningPlugins) -> Result<(), Difference> {
    let without_empty = |owners: &OwningPlugins| {
        let mut owners = owners.clone();
        owners.owners.retain(|_, fields| {
            fields.compound.retain(|_, keys| !keys.owners.is_empty());
            !fields.simple.is_empty() || !fields.compound.is_empty()
        });
        owners
    };
    messages("owners", &without_empty(expected), &without_empty(got))
}

/// Returns the first difference between two lists of updates. A present value differs from an
/// absent value even if it is zero; only empty messages are ignored.
pub(super) fn updates(
    expected: &[Option<ContainerUpdate>],
    got: &[Option<ContainerUpdate>],
) -> Result<(), Difference> {
    for i in 0..expected.len().max(got.len()) {
        let path = format!("updates[{i}]");
        match (expected.get(i), got.get(i)) {
            (Some(Some(expected)), Some(Some(got))) => {
                messages(&path, &without_empty(expected), &without_empty(got))?
            }
            (Some(None), Some(None)) => {}
            (expected, got) => {
                let text = |u: Option<&Option<ContainerUpdate>>| json(u.and_then(Option::as_ref));
                return Err(difference(&path, &text(expected), &text(got)));
            }
        }
    }
    Ok(())
}

/// Returns the update without empty messages.
fn without_empty(update: &ContainerUpdate) -> ContainerUpdate {
    let mut update = update.clone();
    if let Some(linux) = update.linux.as_mut() {
        if let Some(resources) = linux.resources.as_mut() {
            if *resources.memory == LinuxMemory::default() {
                resources.memory = MessageField::none();
            }
            if *resources.cpu == LinuxCPU::default() {
                resources.cpu = MessageField::none();
            }
        }
        if *linux.resources == Default::default() {
            linux.resources = MessageField::none();
        }
    }
    if *update.linux == Default::default() {
        update.linux = MessageField::none();
    }
    update
}

fn messages<M: MessageFull + PartialEq>(
    path: &str,
    expected: &M,
    got: &M,
) -> Result<(), Difference> {
    if expected == got {
        return Ok(());
    }
    let (expected, got) = (json(Some(expected)), json(Some(got)));
    Err(values(path, &expected, &got).err().unwrap_or_else(|| difference(path, &expected, &got)))
}

fn json<M: MessageFull>(message: Option<&M>) -> Value {
    message
        .and_then(|m| protobuf_json_mapping::print_to_string(m).ok())
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or(Value::Null)
}

/// Returns the first difference between two JSON values.
pub(super) fn values(path: &str, expected: &Value, got: &Value) -> Result<(), Difference> {
    match (expected, got) {
        (Value::Object(a), Value::Object(b)) => {
            let only_in_got = b.keys().filter(|key| !a.contains_key(*key));
            a.keys().chain(only_in_got).try_for_each(|key| {
                let null = &Value::Null;
                let inner = format!("{path}.{key}");
                values(&inner, a.get(key).unwrap_or(null), b.get(key).unwrap_or(null))
            })
        }
        (Value::Array(a), Value::Array(b)) => (0..a.len().max(b.len())).try_for_each(|i| {
            let null = &Value::Null;
            values(&format!("{path}[{i}]"), a.get(i).unwrap_or(null), b.get(i).unwrap_or(null))
        }),
        (Value::Number(a), Value::Number(b)) if number(a) == number(b) => Ok(()),
        (a, b) if a == b => Ok(()),
        (a, b) => Err(difference(path, a, b)),
    }
}

fn difference(path: &str, expected: &Value, got: &Value) -> Difference {
    let show = |v: &Value| if v.is_null() { "nothing".to_owned() } else { v.to_string() };
    Difference { path: path.to_owned(), expected: show(expected), got: show(got) }
}

/// Returns the value of a number in a form that can be compared: an integer exactly, any other
/// number as the bits of its nearest double.
fn number(number: &Number) -> (Option<i128>, Option<u64>) {
    let integer = number.as_i128();
    (integer, if integer.is_some() { None } else { number.as_f64().map(f64::to_bits) })
}

/// Returns the value without nulls, empty objects and empty lists.
fn pruned(value: &Value) -> Value {
    let kept = |v: &Value| match v {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    match value {
        Value::Array(list) => Value::Array(list.iter().map(pruned).collect()),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), pruned(value)));
            Value::Object(entries.filter(|(_, value)| kept(value)).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn configs_reports_the_path_of_the_first_difference() {
        let check = |a: Value, b: Value, path: Option<&str>| {
            assert_eq!(configs(&a, &b).err().map(|d| d.path).as_deref(), path, "{a} {b}");
        };
        check(json!({"a": 1, "b": {}, "c": null, "d": []}), json!({"a": 1}), None);
        check(json!({"a": {"b": [1, 2]}}), json!({"a": {"b": [1, 3]}}), Some("spec.a.b[1]"));
        check(json!({"a": [1]}), json!({"a": [1, 2]}), Some("spec.a[1]"));
        check(json!({"a": ""}), json!({}), Some("spec.a"));
        check(json!({}), json!({"a": 0}), Some("spec.a"));
        check(json!({"a": 1}), json!({"a": "1"}), Some("spec.a"));
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        check(
            parse(r#"{"a": 18446744073709551615}"#),
            parse(r#"{"a": 18446744073709551614}"#),
            Some("spec.a"),
        );
    }
}
