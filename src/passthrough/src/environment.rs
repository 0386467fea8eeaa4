//! Entries `NAME=value`, as in an environment.

/// Returns the value of the first entry of this name, as getenv(3) does.
pub fn first<'a>(mut entries: impl Iterator<Item = &'a [u8]>, name: &str) -> Option<&'a [u8]> {
    entries.find_map(|entry| value(entry, name))
}

/// Returns the value of a variable of an environment. An empty value counts as unset.
pub fn variable<'a>(entries: impl Iterator<Item = &'a [u8]>, name: &str) -> Option<&'a [u8]> {
    first(entries, name).filter(|value| !value.is_empty())
}

/// Returns the value in an entry, if the entry has this name.
pub(crate) fn value<'a>(entry: &'a [u8], name: &str) -> Option<&'a [u8]> {
    entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_of_a_name_is_its_value() {
        let entries = ["A", "AB=1", "A=x=y", "A=z", "E=", "E=1"].map(str::as_bytes);
        for (name, value) in
            [("A", Some("x=y")), ("AB", Some("1")), ("E", None), ("B", None), ("", None)]
        {
            assert_eq!(variable(entries.into_iter(), name), value.map(str::as_bytes), "{name}");
        }
        assert_eq!(first(entries.into_iter(), "E"), Some(&b""[..]));
    }
}
