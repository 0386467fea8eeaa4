//! Types of the tables of fields by which packed messages become JSON. The tables are generated.

/// A field of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// Name in JSON.
    pub(crate) name: &'static str,
    /// Name in the protocol, which JSON may have, too.
    pub(crate) original: &'static str,
    pub(crate) label: Label,
    pub(crate) kind: Kind,
}

/// How often a field has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    One,
    Repeated,
    /// The kind is that of the values.
    MapOfString,
    MapOfInt32,
}

/// Type of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    String,
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    /// Numbers and names.
    Enum(&'static [(i32, &'static str)]),
    Message(&'static [Field]),
}
