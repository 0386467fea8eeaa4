//! The program `nri-conformance`: prints the results or the error, and exits with the code.

use std::{
    io::{Write, stderr, stdout},
    process::ExitCode,
};

fn main() -> ExitCode {
    match nri_conformance::cli::main() {
        Ok((text, code)) => {
            // Without a reader of the text, the exit code still has the result.
            let _ = stdout().write_all(text.as_bytes());
            ExitCode::from(code)
        }
        Err(error) => {
            // Nothing is left to report a failure to.
            let _ = writeln!(stderr(), "nri-conformance: {error}");
            ExitCode::from(2)
        }
    }
}
