//! Files of `/proc`. Names in them may be any bytes: the name of one control group must not make
//! the whole file unreadable.

use std::{fs, path::Path};

/// Returns the file's text, with a replacement character for each byte that is not text; empty if
/// the file cannot be read.
pub fn text(file: impl AsRef<Path>) -> String {
    fs::read(file)
        .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_text_spoils_its_own_line_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cgroup");
        fs::write(&file, b"2:cpu:/a\xff\n0::/b\n").unwrap();
        assert_eq!(text(&file), "2:cpu:/a\u{fffd}\n0::/b\n");
        assert_eq!(text(dir.path().join("none")), "");
    }
}
