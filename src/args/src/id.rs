//! Container ids. An id that no runtime accepts is refused before `nrid` is called.
//!
//! The real runtime checks all other rules (characters, length) and reports violations itself.

/// Returns the id as text.
///
/// # Errors
/// The reason why no runtime accepts the id.
pub fn check(id: &[u8]) -> Result<&str, &'static str> {
    match std::str::from_utf8(id) {
        Err(_) => Err("it is not UTF-8"),
        Ok("") => Err("it is empty"),
        Ok("." | "..") => Err("it names a directory"),
        Ok(text) if text.contains('/') => Err("it contains a slash"),
        Ok(text) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(check(id).is_ok(), acceptable, "{id:?}");
        }
    }
}
