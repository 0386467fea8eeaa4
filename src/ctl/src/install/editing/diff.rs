//! Unified diffs of files.

use similar::TextDiff;

/// Returns the unified diff of the old and the new text of a file; `None`: the file does not exist.
pub(crate) fn unified(path: &str, old: Option<&[u8]>, new: Option<&[u8]>) -> String {
    let text =
        |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let name = |bytes: Option<&[u8]>| {
        if bytes.is_some() { path.to_owned() } else { "/dev/null".to_owned() }
    };
    let (before, after) = (text(old), text(new));
    TextDiff::from_lines(&before, &after).unified_diff().header(&name(old), &name(new)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_changed_files_have_diffs() {
        assert_eq!(unified("/f", None, Some(b"a\n")), "--- /dev/null\n+++ /f\n@@ -0,0 +1 @@\n+a\n");
        let changed = unified("/f", Some(b"a\nb"), Some(b"a\nc"));
        assert_eq!(
            changed,
            "--- /f\n+++ /f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\
             \\ No newline at end of file\n"
        );
    }
}
