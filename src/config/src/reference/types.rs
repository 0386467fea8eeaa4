//! Types of the descriptions.

/// A table of the file.
#[derive(Debug, Clone, Copy)]
pub struct SectionDescription {
    /// Its header as in the file; empty for the keys before the first table.
    pub header: &'static str,
    /// Title in the reference.
    pub title: &'static str,
    /// Purpose of the section.
    pub text: &'static str,
    /// Its keys.
    pub keys: &'static [KeyDescription],
}

/// A key of the file.
#[derive(Debug, Clone, Copy)]
pub struct KeyDescription {
    /// Its name, with underscores.
    pub name: &'static str,
    /// Kind of its value.
    pub kind: KeyKind,
    /// Value where the key is not set.
    pub default: DefaultValue,
    /// A value, as TOML.
    pub example: &'static str,
    /// Effect of the key.
    pub text: &'static str,
}

/// Kind of a value.
#[derive(Debug, Clone, Copy)]
pub enum KeyKind {
    /// `true` or `false`.
    Boolean,
    /// A number.
    Integer,
    /// A text such as `"5s"`, or a number of seconds.
    Duration,
    /// A path.
    Path,
    /// Any other text, and which.
    Text(&'static str),
    /// A list, and of what.
    List(&'static str),
    /// A table, and from what to what.
    Table(&'static str),
    /// One of some texts, each with its effect.
    Choice(&'static [(&'static str, &'static str)]),
}

/// Value that applies where a key is not set.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    /// This value, as TOML.
    Value(&'static str),
    /// No single value: what applies instead.
    Derived(&'static str),
    /// None: the key must be set.
    Required,
}
