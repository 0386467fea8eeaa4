//! [`FieldRow`], what is known of an adjustable field.

use crate::proto::Field;

/// An adjustable field, or a part of the OCI config that it sets.
#[derive(Debug, Clone, Copy)]
pub struct FieldRow {
    /// Name in messages, logs and documents.
    pub name: &'static str,
    /// Field of the protocol under which its owner is recorded; `None` if it has no owner.
    pub owner: Option<Field>,
    /// Path in `ContainerAdjustment`, in the protocol's names; empty if plugins cannot set it.
    pub message: &'static str,
    /// Group by which policies allow and deny the field.
    pub group: &'static str,
    /// Path in the OCI config; empty if the field has no place of its own there.
    pub path: &'static [&'static str],
    /// Form of the value at `path`.
    pub form: Form,
    /// Words, in lower case, of errors of runtimes that are about this field.
    pub words: &'static [&'static str],
    /// Whether these errors name the key of an entry.
    pub errors_name_key: bool,
}

/// Form of a field in the OCI config, and so how its values are owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One value.
    Value,
    /// An object whose fields have rows of their own.
    Parts,
    /// An object with an owner for each key.
    Map,
    /// A list with an owner for each element, which the field of this name identifies.
    List(&'static str),
    /// A list of `NAME=VALUE`, with an owner for each name.
    Variables,
    /// A list to which plugins append.
    Appended,
    /// An object of lists to which plugins append.
    AppendedByKey,
}

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

impl FieldRow {
    /// Returns how the field is owned.
    pub const fn kind(&self) -> FieldKind {
        match self.form {
            Form::Value | Form::Parts => FieldKind::Simple,
            Form::Map | Form::List(_) | Form::Variables => FieldKind::Compound,
            Form::Appended | Form::AppendedByKey => FieldKind::Accumulated,
        }
    }

    /// Returns the last key of the path.
    pub const fn key(&self) -> &'static str {
        match self.path.last() {
            Some(key) => key,
            None => "",
        }
    }
}
