//! `check-upstream [VERSION]`: compares our protocol with that of upstream's newest version, or of
//! another one.

use nri_tests::upstream::{
    MODULE, Protocol, UpstreamError, module_dir, newest_version, pinned_version, plugin_module,
};
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    match report(std::env::args().nth(1).filter(|version| !version.is_empty())) {
        Ok(text) => {
            let written = write!(stdout(), "{text}");
            if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            let _ = writeln!(stderr(), "check-upstream: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(version: Option<String>) -> Result<String, UpstreamError> {
    let pinned = pinned_version(&plugin_module())?;
    let version = match version {
        Some(version) => version,
        None => newest_version()?,
    };
    let mut text = if version == pinned {
        format!("{MODULE} {version}: the version of the tests\n")
    } else {
        format!("{MODULE} {version}: the tests use {pinned}\n")
    };
    let upstream = Protocol::of_module(&module_dir(&plugin_module(), Some(&version))?)?;
    let differences = Protocol::ours().differences(&upstream);
    if differences.is_empty() {
        text += "its protocol is that of src/api/proto/nri.proto\n";
    }
    for difference in differences {
        text += &format!("{difference}\n");
    }
    Ok(text)
}
