//! Differences between resources objects, and overlays of one on another.
//!
//! In an update some engines send only the changed fields, others all resources; [`changed`]
//! reduces all resources to the changed fields. A missing field means not set, never removed. All
//! nulls are dropped, because runtimes crash on some of them.

use crate::json::edit::set;
use crate::json::named;
use crate::json::number::{ByValue, same_value};
use crate::json::read::Object;
use crate::resources::hugepages;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Returns the fields of `new` that differ from `old`, as an object. Numbers are compared by value,
/// huge page limits by page size. Of any other list that differs, all elements are returned.
pub fn changed(old: &Value, new: &Value) -> Value {
    let empty = Object::new();
    let fields = new.as_object().unwrap_or(&empty);
    changed_object(old.as_object().unwrap_or(&empty), fields).into()
}

/// Sets the values of `top` in `base`: objects field by field, huge page limits by page size; any
/// other value is replaced. A value that is already equal keeps its text.
pub fn overlay(base: &mut Value, top: &Value) {
    drop_nulls(base);
    if !base.is_object() {
        *base = Value::Object(Object::new());
    }
    if let (Some(base), Some(top)) = (base.as_object_mut(), top.as_object()) {
        overlay_object(base, top);
    }
}

pub(crate) fn overlay_object(base: &mut Object, top: &Object) {
    for (key, value) in top {
        match (base.get_mut(key), value) {
            (_, Value::Null) => {}
            (Some(Value::Object(old)), Value::Object(new)) => overlay_object(old, new),
            (Some(Value::Array(old)), Value::Array(new)) if key == hugepages::FIELD => {
                let size = named::name_field(hugepages::KEY);
                // A limit without a page size replaces no other limit; it is added unless an equal
                // limit exists.
                let mut without_size: HashSet<_> =
                    old.iter().filter(|o| size(o).is_none()).map(ByValue).collect();
                let new = limits(new);
                let is_new: Vec<bool> = new
                    .iter()
                    .map(|(size, limit)| size.is_some() || without_size.insert(ByValue(limit)))
                    .collect();
                let new = new
                    .into_iter()
                    .zip(is_new)
                    .filter(|(_, is_new)| *is_new)
                    .map(|(limit, _)| limit);
                named::replace_or_push(old, size, new.collect());
            }
            _ => set(base, key, without_nulls(value)),
        }
    }
}

/// Returns a copy without nulls.
pub(crate) fn without_nulls(value: &Value) -> Value {
    let mut copy = value.clone();
    drop_nulls(&mut copy);
    copy
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, v| !v.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => {
            items.retain(|v| !v.is_null());
            items.iter_mut().for_each(drop_nulls);
        }
        _ => {}
    }
}

fn changed_object(old: &Object, new: &Object) -> Object {
    let mut result = Object::new();
    for (key, value) in new {
        let difference = match (old.get(key), value) {
            (_, Value::Null) => None,
            (Some(Value::Object(old)), Value::Object(new)) => non_empty(changed_object(old, new)),
            (None | Some(Value::Null), Value::Object(new)) => {
                non_empty(changed_object(&Object::new(), new))
            }
            (Some(Value::Array(old)), Value::Array(new)) if key == hugepages::FIELD => {
                let old = limits(old);
                let old: HashSet<_> =
                    old.iter().map(|(size, limit)| (*size, ByValue(limit))).collect();
                let is_new =
                    |limit: &(Option<&str>, Value)| !old.contains(&(limit.0, ByValue(&limit.1)));
                let new: Vec<Value> =
                    limits(new).into_iter().filter(is_new).map(|(_, limit)| limit).collect();
                (!new.is_empty()).then(|| new.into())
            }
            (Some(old), new) if same_value(&without_nulls(old), &without_nulls(new)) => None,
            (_, new) => Some(without_nulls(new)),
        };
        if let Some(difference) = difference {
            result.insert(key.clone(), difference);
        }
    }
    result
}

fn non_empty(object: Object) -> Option<Value> {
    (!object.is_empty()).then(|| object.into())
}

/// Returns huge page limits with their page sizes: of each size the last limit, at the position of
/// the first; limits without a size unchanged.
fn limits(list: &[Value]) -> Vec<(Option<&str>, Value)> {
    let mut result: Vec<(Option<&str>, Value)> = Vec::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for limit in list.iter().filter(|l| !l.is_null()) {
        let size = limit.get(hugepages::KEY).and_then(Value::as_str);
        match size.and_then(|size| positions.get(size).copied()) {
            Some(position) => result[position].1 = without_nulls(limit),
            None => {
                positions.extend(size.map(|size| (size, result.len())));
                result.push((size, without_nulls(limit)));
            }
        }
    }
    result
}
