//! Break-glass, as wrappers see it. The variable is in the environment of engines, which is not for
//! us to read.

use nri_locate::{BYPASS_FILE, BreakGlass};

/// Describes the file in a line, where it exists.
pub(crate) fn describe(file: &BreakGlass) -> Option<String> {
    match file {
        BreakGlass::Off => None,
        BreakGlass::On => Some(format!("{BYPASS_FILE} exists: no plugin is asked about anything")),
        BreakGlass::Ignored(why) => Some(not_trusted(&why.to_string())),
    }
}

/// The reason may be another one's: a directory above may be anybody's.
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
    fn the_file_is_named_once() {
        let told = not_trusted(&format!("{BYPASS_FILE} is writable by everybody"));
        assert_eq!(
            told,
            format!("{BYPASS_FILE} exists and is not trusted, since it is writable by everybody")
        );
        let told = not_trusted("/etc is writable by everybody");
        assert_eq!(
            told,
            format!("{BYPASS_FILE} exists and is not trusted: /etc is writable by everybody")
        );
    }
}
