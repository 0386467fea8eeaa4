//! Namespaces: `linux.namespaces`, identified by type.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{array, existing_array, put_text};
use crate::json::named;
use crate::json::read::{Object, Read, field_or_default, list, object, text};
use nri_api::{
    Marked,
    proto::{ContainerAdjustment, Field, LinuxNamespace},
};
use serde_json::Value;
use std::collections::HashSet;

const PATH: [&str; 2] = ["linux", "namespaces"];
const TYPES: [&str; 8] = ["network", "pid", "mount", "ipc", "uts", "user", "cgroup", "time"];

pub(crate) fn read(linux: &Object) -> Read<Vec<LinuxNamespace>> {
    field_or_default(linux, "namespaces", list(read_one))
}

fn read_one(value: &Value) -> Read<LinuxNamespace> {
    let fields = object(value)?;
    let mut namespace = LinuxNamespace::new();
    namespace.type_ = field_or_default(fields, "type", text)?;
    namespace.path = field_or_default(fields, "path", text)?;
    Ok(namespace)
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let namespaces = &adjust.linux.namespaces;
    for namespace in namespaces {
        let kind = Marked::parse(&namespace.type_).key();
        if !TYPES.contains(&kind) {
            let value = kind.to_owned();
            return Err(ApplyError::Invalid {
                field: Field::Namespace,
                value,
                why: "is not a namespace type",
            });
        }
    }
    let (mut set, mut removed) = (Vec::new(), HashSet::new());
    for namespace in namespaces {
        match Marked::parse(&namespace.type_) {
            Marked::Remove(kind) => drop(removed.insert(kind)),
            Marked::Set(kind) => {
                let mut entry = Object::new();
                entry.insert("type".into(), kind.into());
                put_text(&mut entry, "path", &namespace.path);
                set.push((Some(kind), entry.into()));
            }
        }
    }
    // A type that is both removed and set is set, and its namespace keeps its position.
    for (kind, _) in &set {
        kind.map(|kind| removed.remove(kind));
    }
    if !removed.is_empty()
        && let Some(list) = existing_array(spec, &PATH).map_err(in_field("namespaces"))?
    {
        named::remove(list, named::name_field("type"), &removed);
    }
    if !set.is_empty() {
        let list = array(spec, &PATH).map_err(in_field("namespaces"))?;
        named::replace_or_push(list, named::name_field("type"), set);
    }
    Ok(())
}
