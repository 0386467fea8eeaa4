//! Ownership of each adjustable [`Field`]: one owner, one owner per key, or no owner.

use crate::proto::Field;

/// Ownership of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// One owner (`FieldOwners.simple`).
    Simple,
    /// One owner per key (`FieldOwners.compound`).
    Compound,
    /// No owner: the contributions of all plugins add up, without conflicts.
    Accumulated,
}

/// Returns the kind of `field`; `None` for [`Field::None`].
pub fn field_kind(field: Field) -> Option<FieldKind> {
    match field {
        Field::None => None,
        Field::OciHooks => Some(FieldKind::Accumulated),
        Field::Annotations
        | Field::Mounts
        | Field::Devices
        | Field::CdiDevices
        | Field::Env
        | Field::HugepageLimits
        | Field::CgroupsUnified
        | Field::Rlimits
        | Field::Namespace
        | Field::Sysctl
        | Field::LinuxNetDevices => Some(FieldKind::Compound),
        _ => Some(FieldKind::Simple),
    }
}
