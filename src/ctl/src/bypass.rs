//! Break-glass, as wrappers see it. The variable is in the environment of engines, which is not for us to read.

use nri_config::BYPASS_FILE;
use nri_trust::{Owners, Untrusted};
use std::path::Path;

/// The file that takes NRI out of service: `None` where it is not there, the reason where it does not count.
pub(crate) fn file() -> Option<Result<(), Untrusted>> {
    let file = Path::new(BYPASS_FILE);
    file.exists().then(|| Owners::of_this_process().check(file))
}

/// In a line, what its presence means.
pub(crate) fn told() -> Option<String> {
    Some(match file()? {
        Ok(()) => format!("{BYPASS_FILE} exists: no plugin is asked about anything"),
        Err(why) => format!("{BYPASS_FILE} exists and is not relied upon: {why}"),
    })
}
