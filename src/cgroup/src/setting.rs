//! Resources as settings of files.

use crate::{
    Controller, Expect, Place, blkio, cpu, cpuset, devices, hugetlb, memory, pids, unified,
};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file, what is to be written to it, and what is to be found there then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The field of `linux.resources`, such as `memory.limit` or `hugepageLimits.2MB`.
    pub field: String,
    /// Its names, of which the first that exists counts.
    pub files: Vec<PathBuf>,
    /// What is written, each text by itself; empty where the runtime alone can set it.
    pub write: Vec<String>,
    /// What is to be found.
    pub expect: Expect,
    /// It may be that none of the files exists.
    pub optional: bool,
}

/// What resources mean in the control groups of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The settings, in an order in which they can be made.
    pub settings: Vec<Setting>,
    /// Fields for which there is no file: no hierarchy has their controller, or this version of
    /// control groups does not have them.
    pub nowhere: Vec<String>,
}

/// What `resources`, a `linux.resources` of an OCI document, mean at this place.
pub fn settings(resources: &Value, place: &Place) -> Plan {
    let mut plan = Plan::default();
    for add in [
        cpuset::add,
        cpu::add,
        memory::add,
        pids::add,
        hugetlb::add,
        blkio::add,
        devices::add,
        unified::add,
    ] {
        add(resources, place, &mut plan);
    }
    plan
}

impl Plan {
    /// A setting of one file that must be there.
    pub(crate) fn set(
        &mut self,
        field: impl Into<String>,
        file: PathBuf,
        write: impl Into<String>,
        expect: Expect,
    ) {
        self.settings.push(Setting {
            field: field.into(),
            files: vec![file],
            write: vec![write.into()],
            expect,
            optional: false,
        });
    }

    /// A field that cannot be had here.
    pub(crate) fn none(&mut self, field: impl Into<String>) {
        self.nowhere.push(field.into());
    }
}

/// A number of the resources that is given: nulls and absence are not, nor is what is no whole
/// number.
pub(crate) fn number(resources: &Value, pointer: &str) -> Option<i64> {
    let value = resources.pointer(pointer)?;
    // Some engines write large limits as unsigned numbers.
    value.as_i64().or_else(|| value.as_u64().map(|_| i64::MAX))
}

/// The directory of a controller, and whether it is of version 2.
pub(crate) enum Dir<'a> {
    V1(&'a Path),
    V2(&'a Path),
    Nowhere,
}

pub(crate) fn dir(place: &Place, controller: Controller) -> Dir<'_> {
    match (place.v1(controller), place.v2(controller)) {
        (Some(dir), _) => Dir::V1(dir),
        (None, Some(dir)) => Dir::V2(dir),
        (None, None) => Dir::Nowhere,
    }
}
