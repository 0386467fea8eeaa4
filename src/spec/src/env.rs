//! Environment of the process: `process.env`, a list of `NAME=value`.
//!
//! A variable that is there keeps its place and takes the new value, new ones are appended, entries without `=` stay.

use crate::context::ApplyContext;
use crate::edit::{array, existing_array, in_field};
use crate::error::ApplyError;
use crate::read::{Object, Read, field_or_default, list, text};
use nri_api::{Marked, proto::ContainerAdjustment};
use serde_json::Value;

const PATH: [&str; 2] = ["process", "env"];

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
                field: "env",
                value: key.into(),
                why: "is no name of a variable",
            });
        }
    }
    for entry in &adjust.env {
        if let Marked::Remove(name) = Marked::parse(&entry.key)
            && !adjust.env.iter().any(|e| Marked::sets(&e.key, name))
            && let Some(env) = existing_array(spec, &PATH).map_err(in_field("env"))?
        {
            env.retain(|e| name_of(e) != Some(name));
        }
    }
    for entry in &adjust.env {
        if let Marked::Set(name) = Marked::parse(&entry.key) {
            let env = array(spec, &PATH).map_err(in_field("env"))?;
            set(env, name, &format!("{name}={}", entry.value));
        }
    }
    Ok(())
}

/// Puts `NAME=value` in the place of `NAME`, or at the end. Should the name be there several times, all but the first go.
pub(crate) fn set(env: &mut Vec<Value>, name: &str, variable: &str) {
    let Some(first) = env.iter().position(|e| name_of(e) == Some(name)) else {
        return env.push(variable.into());
    };
    env[first] = variable.into();
    let mut index = 0;
    env.retain(|e| {
        index += 1;
        index <= first + 1 || name_of(e) != Some(name)
    });
}

fn name_of(entry: &Value) -> Option<&str> {
    entry.as_str()?.split_once('=').map(|(name, _)| name)
}
