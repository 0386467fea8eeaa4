//! Converts the fields of a controller between OCI and NRI by the table of resource fields. Fields
//! that are lists or maps are converted elsewhere.

use crate::json::read::{Object, Read, boolean, field, integer, text};
use nri_api::proto::LinuxResources;
use nri_api::{Access, fields_of};
use serde_json::Value;

/// Reads the fields of `group` from its object.
pub(crate) fn read(group: &str, object: &Object, into: &mut LinuxResources) -> Read<()> {
    for row in fields_of(group) {
        let key = row.key();
        match &row.access {
            Access::Int64(a) => set(field(object, key, integer)?, a.set, into),
            Access::UInt64(a) => set(field(object, key, integer)?, a.set, into),
            Access::Bool(a) => set(field(object, key, boolean)?, a.set, into),
            Access::Text(a) => set(field(object, key, text)?, a.set, into),
            Access::Entries(_) | Access::OciOnly => {}
        }
    }
    Ok(())
}

fn set<T>(value: Option<T>, set: fn(&mut LinuxResources, T), into: &mut LinuxResources) {
    if let Some(value) = value {
        set(into, value);
    }
}

/// The object of `group` with the fields that `resources` sets.
pub(crate) fn to_oci(group: &str, resources: &LinuxResources) -> Object {
    let value = |access: &Access| match access {
        Access::Int64(a) => (a.get)(resources).map(Value::from),
        Access::UInt64(a) => (a.get)(resources).map(Value::from),
        Access::Bool(a) => (a.get)(resources).map(Value::from),
        Access::Text(a) => (a.get)(resources).map(Value::from),
        Access::Entries(_) | Access::OciOnly => None,
    };
    let fields = fields_of(group);
    fields.filter_map(|row| Some((row.key().to_owned(), value(&row.access)?))).collect()
}
