//! Environment variables, owned by name.
//!
//! The container that later plugins see is what the specification will be: a name that exists keeps its place, a new
//! one goes to the end. An entry without `=` is no variable and stays.

use crate::marked::{Keys, removal};
use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::Marked;
use nri_api::proto::{ContainerAdjustment, Field, KeyValue};

pub(crate) fn claim(asked: &ContainerAdjustment, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    keys(asked).claim(Field::Env, claims)
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    let keys = keys(asked);
    merged.adjust.env.retain(|e| !keys.touch_marked(&e.key));
    for name in &keys.removed {
        merged.adjust.env.push(KeyValue { key: removal(name), ..Default::default() });
        merged.container.env.retain(|e| name_of(e) != Some(name));
    }
    for variable in asked.env.iter().filter(|e| matches!(Marked::parse(&e.key), Marked::Set(_))) {
        merged.adjust.env.push(variable.clone());
        set(&mut merged.container.env, variable);
    }
}

/// Sets the first entry of that name, drops any other, or appends one.
fn set(env: &mut Vec<String>, variable: &KeyValue) {
    let entry = format!("{}={}", variable.key, variable.value);
    let mut found = false;
    env.retain_mut(|present| {
        if name_of(present) != Some(&variable.key) {
            return true;
        }
        let first = !std::mem::replace(&mut found, true);
        if first {
            present.clone_from(&entry);
        }
        first
    });
    if !found {
        env.push(entry);
    }
}

fn name_of(entry: &str) -> Option<&str> {
    entry.split_once('=').map(|(name, _)| name)
}

fn keys(asked: &ContainerAdjustment) -> Keys<'_> {
    Keys::of_list(asked.env.iter().map(|e| e.key.as_str()))
}
