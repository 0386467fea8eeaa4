//! [`Plan`]: the writes to control files that give a container its resources.

use crate::{
    controller::Controller, dirs::CgroupDirs, effective::EffectiveValue, write::CgroupWrite,
};
use nri_api::ResourceField;
use serde_json::Value;
use std::path::Path;

/// Resources of a container as writes to its cgroups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The writes, in an order in which the kernel accepts them.
    pub writes: Vec<CgroupWrite>,
    /// Names of fields without a file: no hierarchy has the controller, or this version of cgroups
    /// does not have the field.
    pub unsupported: Vec<String>,
}

impl Plan {
    /// Adds a write to the file of a field, or the field to `unsupported` if it has no file in
    /// `dir`. A field may have alternative files.
    pub(crate) fn write(
        &mut self,
        field: &ResourceField,
        dir: ControllerDir<'_>,
        text: impl Into<String>,
        effective: EffectiveValue,
    ) {
        let Some((dir, names)) = dir.files(field) else { return self.add_unsupported(field.name) };
        self.writes.push(CgroupWrite {
            field: field.name.to_owned(),
            files: names.iter().map(|name| dir.join(name)).collect(),
            texts: vec![text.into()],
            effective,
            is_optional: false,
        });
    }

    /// Adds a field that has no file on the host.
    pub(crate) fn add_unsupported(&mut self, field: impl Into<String>) {
        self.unsupported.push(field.into());
    }
}

/// The directory of a container's cgroup in the hierarchy of one controller.
#[derive(Clone, Copy)]
pub(crate) enum ControllerDir<'a> {
    V1(&'a Path),
    V2(&'a Path),
    /// No hierarchy has the controller.
    Missing,
}

impl<'a> ControllerDir<'a> {
    pub(crate) fn of(dirs: &'a CgroupDirs, controller: Controller) -> Self {
        match (dirs.v1(controller), dirs.v2(controller)) {
            (Some(dir), _) => Self::V1(dir),
            (None, Some(dir)) => Self::V2(dir),
            (None, None) => Self::Missing,
        }
    }

    /// The directory, and the names of a field's files in it; `None` if the field has no file
    /// there.
    pub(crate) fn files(
        self,
        field: &ResourceField,
    ) -> Option<(&'a Path, &'static [&'static str])> {
        let (dir, names) = match self {
            Self::V1(dir) => (dir, field.v1),
            Self::V2(dir) => (dir, field.v2),
            Self::Missing => return None,
        };
        Some((dir, names)).filter(|(_, names)| !names.is_empty())
    }
}

/// The value of a field as a whole number; `None` if it is missing, null or of another type.
pub(crate) fn number(resources: &Value, field: &ResourceField) -> Option<i64> {
    as_number(at(resources, field)?)
}

/// A value as a whole number. Unsigned numbers beyond `i64`, which some engines write for "no
/// limit", count as `i64::MAX`.
pub(crate) fn as_number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_u64().map(|_| i64::MAX))
}

/// The value of a field.
pub(crate) fn at<'a>(resources: &'a Value, field: &ResourceField) -> Option<&'a Value> {
    field.path.iter().try_fold(resources, |value, key| value.get(key))
}

/// The elements of a field that is a list.
pub(crate) fn list<'a>(
    resources: &'a Value,
    field: &ResourceField,
) -> impl Iterator<Item = &'a Value> {
    at(resources, field).and_then(Value::as_array).into_iter().flatten()
}
