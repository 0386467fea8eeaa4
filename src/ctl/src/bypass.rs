//! Break-glass, as wrappers see it. The variable is in the environment of engines, which is not for
//! us to read.

use nri_config::BYPASS_FILE;
use nri_trust::{Owners, Untrusted};
use std::path::Path;

/// The file that takes NRI out of service: `None` where it is not there, the reason where it does
/// not count.
pub(crate) fn file() -> Option<Result<(), Untrusted>> {
    let file = Path::new(BYPASS_FILE);
    file.exists().then(|| Owners::of_this_process().check(file))
}

/// In a line, what its presence means.
pub(crate) fn told() -> Option<String> {
    Some(match file()? {
        Ok(()) => format!("{BYPASS_FILE} exists: no plugin is asked about anything"),
        Err(why) => not_relied_upon(&why.to_string()),
    })
}

/// The reason may be another one's: a directory above may be anybody's.
fn not_relied_upon(why: &str) -> String {
    match why.strip_prefix(BYPASS_FILE).filter(|rest| rest.starts_with(' ')) {
        Some(rest) => format!("{BYPASS_FILE} exists and is not relied upon, since it{rest}"),
        None => format!("{BYPASS_FILE} exists and is not relied upon: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_named_once() {
        let told = not_relied_upon(&format!("{BYPASS_FILE} is writable by everybody"));
        assert_eq!(
            told,
            format!(
                "{BYPASS_FILE} exists and is not relied upon, since it is writable by everybody"
            )
        );
        let told = not_relied_upon("/etc is writable by everybody");
        assert_eq!(
            told,
            format!("{BYPASS_FILE} exists and is not relied upon: /etc is writable by everybody")
        );
    }
}
