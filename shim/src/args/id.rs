//! Container ids. An id that no runtime accepts is refused before `nrid` is called.
//!
//! The real runtime checks all other rules (characters, length) and reports violations itself.

use crate::error::Error;
use std::ffi::OsStr;

/// Returns the id as text.
pub(crate) fn check(id: &OsStr) -> Result<&str, Error> {
    let refused = |why| Err(Error::Id(id.to_owned(), why));
    match id.to_str() {
        None => refused("it is not UTF-8"),
        Some("") => refused("it is empty"),
        Some("." | "..") => refused("it names a directory"),
        Some(text) if text.contains('/') => refused("it contains a slash"),
        Some(text) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn ids_that_are_not_plain_file_names_are_refused() {
        for (id, acceptable) in [
            (&b"abc"[..], true),
            (b"a.b_c-d+e", true),
            (b"...", true),
            (b"create", true),
            (b"", false),
            (b".", false),
            (b"..", false),
            (b"a/b", false),
            (b"/", false),
            (b"\xff", false),
        ] {
            assert_eq!(check(OsStr::from_bytes(id)).is_ok(), acceptable, "{id:?}");
        }
    }
}
