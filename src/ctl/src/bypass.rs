//! Break-glass, as wrappers see it. Its variable is in the environment of engines, which nrictl
//! does not read.

use nri_locate::{BYPASS_FILE, BreakGlass};

/// Describes the file in a line, where it exists.
pub(crate) fn describe(file: &BreakGlass) -> Option<String> {
    match file {
        BreakGlass::Off => None,
        BreakGlass::On => Some(format!("{BYPASS_FILE} exists: containers run without NRI")),
        BreakGlass::Ignored(why) => Some(not_trusted(&why.to_string())),
    }
}

/// Says why the file is not trusted; the reason may be about a directory above it.
fn not_trusted(why: &str) -> String {
    match why.strip_prefix(BYPASS_FILE).filter(|rest| rest.starts_with(' ')) {
        Some(rest) => format!("{BYPASS_FILE} exists and is not trusted, since it{rest}"),
        None => format!("{BYPASS_FILE} exists and is not trusted: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untrusted_bypass_file_is_named_once() {
        let of_file = not_trusted(&format!("{BYPASS_FILE} is writable by everybody"));
        let expected = "exists and is not trusted, since it is writable by everybody";
        assert_eq!(of_file, format!("{BYPASS_FILE} {expected}"));
        let of_directory = not_trusted("/etc is writable by everybody");
        let expected = "exists and is not trusted: /etc is writable by everybody";
        assert_eq!(of_directory, format!("{BYPASS_FILE} {expected}"));
    }
}
