//! Environment of the process: `process.env`, a list of `NAME=value`.
//!
//! An existing variable keeps its position and gets the new value; a new variable is appended.
//! Entries without `=` are kept.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{array, existing_array};
use crate::json::named;
use crate::json::read::{Object, Read, field_or_default, list, text};
use nri_api::{
    Marked,
    proto::{ContainerAdjustment, Field, KeyValue},
    removal_key,
};
use serde_json::Value;
use std::collections::HashSet;

pub(crate) const PATH: [&str; 2] = ["process", "env"];

pub(crate) fn read(process: &Object) -> Read<Vec<String>> {
    field_or_default(process, "env", list(text))
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    for entry in &adjust.env {
        let key = Marked::parse(&entry.key).key();
        if key.is_empty() || key.contains(['=', '\0']) {
            return Err(ApplyError::Invalid {
                field: Field::Env,
                value: key.into(),
                why: "is not a variable name",
            });
        }
    }
    let is_set = |entry: &&KeyValue| Marked::sets(&entry.key, &entry.key);
    let set: HashSet<&str> = adjust.env.iter().filter(is_set).map(|e| e.key.as_str()).collect();
    let removed =
        adjust.env.iter().filter_map(|e| removal_key(&e.key)).filter(|name| !set.contains(name));
    let removed: HashSet<&str> = removed.collect();
    if !removed.is_empty()
        && let Some(env) = existing_array(spec, &PATH).map_err(in_field("env"))?
    {
        named::remove(env, name_of, &removed);
    }
    let variables: Vec<_> = adjust
        .env
        .iter()
        .filter(is_set)
        .map(|e| (e.key.as_str(), format!("{}={}", e.key, e.value)))
        .collect();
    if variables.is_empty() {
        return Ok(());
    }
    set_all(array(spec, &PATH).map_err(in_field("env"))?, variables);
    Ok(())
}

/// Sets each `NAME=value` at the position of `NAME`, or appends it. Of several existing entries of
/// one name the first is replaced, the others are removed.
pub(crate) fn set_all(env: &mut Vec<Value>, variables: Vec<(&str, String)>) {
    let variables =
        variables.into_iter().map(|(name, variable)| (Some(name), variable.into())).collect();
    named::replace_or_push(env, name_of, variables);
}

fn name_of(entry: &Value) -> Option<&str> {
    entry.as_str()?.split_once('=').map(|(name, _)| name)
}
