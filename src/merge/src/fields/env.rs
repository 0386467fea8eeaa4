//! Environment variables. Each name has one owner, the plugin that set it.
//!
//! Later plugins see the environment as it will be in the OCI config: an existing name keeps its
//! position, a new one is appended. An entry without `=` is not a variable, and is kept.

use crate::error::MergeError;
use crate::marked::{Keys, removal};
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::Marked;
use nri_api::proto::{ContainerAdjustment, Field, KeyValue};
use std::collections::HashMap;

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    keys(requested).claim(Field::Env, claims)
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    let keys = keys(requested);
    merged.adjust.env.retain(|e| !keys.changes_key_of(&e.key));
    for name in &keys.removed {
        merged.adjust.env.push(KeyValue { key: removal(name), ..Default::default() });
    }
    merged.container.env.retain(|e| !name_of(e).is_some_and(|name| keys.removed.contains(name)));
    let variables =
        || requested.env.iter().filter(|e| matches!(Marked::parse(&e.key), Marked::Set(_)));
    merged.adjust.env.extend(variables().cloned());
    set_all(&mut merged.container.env, variables());
}

/// Sets `variables` in `env`: replaces the first entry that has the name of a variable, removes the
/// other entries of that name, and appends variables without an entry.
fn set_all<'a>(env: &mut Vec<String>, variables: impl Iterator<Item = &'a KeyValue> + Clone) {
    let entry = |variable: &KeyValue| format!("{}={}", variable.key, variable.value);
    // Each variable by name, and whether an entry of that name was found.
    let mut by_name: HashMap<&str, (&KeyValue, bool)> =
        variables.clone().map(|v| (v.key.as_str(), (v, false))).collect();
    env.retain_mut(|existing| {
        let Some((variable, is_found)) = name_of(existing).and_then(|name| by_name.get_mut(name))
        else {
            return true;
        };
        let is_first = !std::mem::replace(is_found, true);
        if is_first {
            *existing = entry(variable);
        }
        is_first
    });
    let is_missing = |v: &&KeyValue| by_name.get(&*v.key).is_none_or(|(_, is_found)| !is_found);
    env.extend(variables.filter(is_missing).map(entry));
}

fn name_of(entry: &str) -> Option<&str> {
    entry.split_once('=').map(|(name, _)| name)
}

fn keys(requested: &ContainerAdjustment) -> Keys<'_> {
    Keys::of_list(requested.env.iter().map(|e| e.key.as_str()))
}
