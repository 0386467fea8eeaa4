//! Types that describe sections and keys for the reference.

/// A table of the file.
#[derive(Debug, Clone, Copy)]
pub struct SectionDescription {
    /// Header of the table as in the file; empty for the keys before the first table.
    pub header: &'static str,
    /// Title in the reference.
    pub title: &'static str,
    /// Purpose of the section.
    pub text: &'static str,
    /// Keys of the table.
    pub keys: &'static [KeyDescription],
}

/// A key of the file.
#[derive(Debug, Clone, Copy)]
pub struct KeyDescription {
    /// Name of the key, with underscores.
    pub name: &'static str,
    /// Kind of the value.
    pub kind: KeyKind,
    /// Value if the key is not set.
    pub default: DefaultValue,
    /// Example value, as TOML.
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
    /// A text such as `"8MiB"`, or a number.
    Size,
    /// A path.
    Path,
    /// Other text, with a description.
    Text(&'static str),
    /// A list, with a description of the elements.
    List(&'static str),
    /// A table, with a description of keys and values.
    Table(&'static str),
    /// One of several texts, each with its effect.
    Choice(&'static [(&'static str, &'static str)]),
}

/// Value that applies if a key is not set.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    /// This value, as TOML.
    Value(&'static str),
    /// No fixed value: the description says what applies instead.
    Derived(&'static str),
    /// No default: the key must be set.
    Required,
}
