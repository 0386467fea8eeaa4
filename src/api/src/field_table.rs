//! Types of the tables of fields, by which packed messages are converted to and from JSON. The
//! tables are generated.

/// A field of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// Name in JSON.
    pub(crate) name: &'static str,
    /// Name in the protocol, which is also accepted in JSON.
    pub(crate) original: &'static str,
    pub(crate) label: Label,
    pub(crate) kind: Kind,
}

/// Number of values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    One,
    Repeated,
    /// A map with text keys. [`Field::kind`] is the type of its values.
    MapOfString,
    /// A map with integer keys.
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
    /// An enum, with the numbers and names of its values.
    Enum(&'static [(i32, &'static str)]),
    Message(&'static [Field]),
}
