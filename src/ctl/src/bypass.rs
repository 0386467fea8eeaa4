//! Description of the break-glass file. The break-glass variable is not described: it is set in
//! the environment of engines, which nrictl does not read.

use nri_locate::{BYPASS_ENV, BreakGlass};
use std::path::Path;

/// Describes the break-glass file in one line; `None` if it does not exist.
pub(crate) fn describe(file: &BreakGlass) -> Option<String> {
    match file {
        BreakGlass::Off => None,
        BreakGlass::On(file) => {
            let what = file.as_ref().map_or_else(
                || format!("{BYPASS_ENV} is set"),
                |file| format!("{} exists", file.display()),
            );
            Some(format!("{what}: containers run without NRI"))
        }
        BreakGlass::Ignored(file, why) => Some(not_trusted(file, &why.to_string())),
        BreakGlass::Hangs(file) => {
            Some(format!("break-glass file {} is ignored: its file system hangs", file.display()))
        }
    }
}

/// Returns the line for an untrusted file. The reason may name a directory above the file.
fn not_trusted(file: &Path, why: &str) -> String {
    let file = file.display().to_string();
    match why.strip_prefix(&file).filter(|rest| rest.starts_with(' ')) {
        Some(rest) => format!("{file} exists and is not trusted, since it{rest}"),
        None => format!("{file} exists and is not trusted: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_locate::BYPASS_FILE;

    #[test]
    fn an_untrusted_bypass_file_is_named_once() {
        let of_file =
            not_trusted(Path::new(BYPASS_FILE), &format!("{BYPASS_FILE} is writable by everybody"));
        let expected = "exists and is not trusted, since it is writable by everybody";
        assert_eq!(of_file, format!("{BYPASS_FILE} {expected}"));
        let of_directory = not_trusted(Path::new(BYPASS_FILE), "/etc is writable by everybody");
        let expected = "exists and is not trusted: /etc is writable by everybody";
        assert_eq!(of_directory, format!("{BYPASS_FILE} {expected}"));
    }
}
