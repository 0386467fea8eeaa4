//! Namespaces: `linux.namespaces`, by type.

use crate::context::ApplyContext;
use crate::edit::{array, existing_array, in_field, is_named, put_text, replace_or_push};
use crate::error::ApplyError;
use crate::read::{Object, Read, field_or_default, list, object, text};
use nri_api::{
    Marked,
    proto::{ContainerAdjustment, LinuxNamespace},
};
use serde_json::Value;

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
            return Err(ApplyError::Invalid { field: "namespace", value, why: "is no type of a namespace" });
        }
    }
    let set = |kind: &str| namespaces.iter().any(|n| n.type_ == kind);
    for namespace in namespaces {
        match Marked::parse(&namespace.type_) {
            // What is set as well keeps its place.
            Marked::Remove(kind) if !set(kind) => {
                if let Some(list) = existing_array(spec, &PATH).map_err(in_field("namespaces"))? {
                    list.retain(|n| !is_named(n, "type", kind));
                }
            }
            Marked::Remove(_) => {}
            Marked::Set(kind) => {
                let mut entry = Object::new();
                entry.insert("type".into(), kind.into());
                put_text(&mut entry, "path", &namespace.path);
                let list = array(spec, &PATH).map_err(in_field("namespaces"))?;
                replace_or_push(list, "type", kind, entry.into());
            }
        }
    }
    Ok(())
}
