//! Description of the break-glass file. The break-glass variable is not described: it is set in
//! the environment of engines, which nrictl does not read.

use nri_locate::{BYPASS_FILE, BreakGlass};

/// Describes the break-glass file in one line; `None` if it does not exist.
pub(crate) fn describe(file: &BreakGlass) -> Option<String> {
    match file {
        BreakGlass::Off => None,
        BreakGlass::On => Some(format!("{BYPASS_FILE} exists: containers run without NRI")),
        BreakGlass::Ignored(why) => Some(not_trusted(&why.to_string())),
    }
}

/// Returns the line for an untrusted file. The reason may name a directory above the file.
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
