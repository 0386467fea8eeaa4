//! `nrictl validate`: checks the configuration and the files that it names. `nrid --validate` does
//! it, so that the files are judged by the program that uses them.

use crate::{
    error::CtlError, exit_code::problem_unless, nrid, nrid_location::NridLocation, output::output,
    table::TextTable, uncalled::Uncalled,
};
use nri_control::{LaunchError, Validation, ValidationSeverity};
use std::{
    io::{self, Write},
    process::{Command, ExitCode, Stdio},
};

/// Checks the configuration, and whether plugins are called, and prints the results.
///
/// # Errors
/// As for [`validate`]; or standard output cannot be written to.
pub(crate) fn run(nrid: &NridLocation, json: bool) -> Result<ExitCode, CtlError> {
    let mut found = validate(nrid)?;
    let uncalled = Uncalled::find(nrid, nrid::running_status(nrid).as_deref());
    if let Some(uncalled) = uncalled.filter(|uncalled| !uncalled.is_pending()) {
        found.add(ValidationSeverity::Problem, "plugins", uncalled.to_string());
    }
    print(&found, json)?;
    Ok(problem_unless(found.is_valid()))
}

/// Runs `nrid --validate`.
///
/// # Errors
/// The program cannot be run, or its output is not that of this release.
pub(crate) fn validate(nrid: &NridLocation) -> Result<Validation, CtlError> {
    let launcher = &nrid.launcher;
    let program = launcher.program.as_ref().ok_or(LaunchError::NotFound)?;
    let mut command = Command::new(program);
    command.arg("--validate").arg("--state-dir").arg(&launcher.state_dir);
    if let Some(config) = &launcher.config {
        command.arg("--config").arg(config);
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| LaunchError::Spawn { program: program.clone(), source })?;
    let found = serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success());
    found.ok_or_else(|| CtlError::NotValidated {
        program: program.clone(),
        status: output.status,
        error: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// Prints the results as a table or as JSON.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print(found: &Validation, json: bool) -> io::Result<()> {
    let mut out = output();
    if json {
        let value = serde_json::json!({"valid": found.is_valid(), "items": found.items});
        return writeln!(out, "{value}");
    }
    let mut table = TextTable::new(0);
    for item in &found.items {
        let mark = match item.severity {
            ValidationSeverity::Ok => "ok",
            ValidationSeverity::Info => "info",
            ValidationSeverity::Warning => "warning",
            ValidationSeverity::Problem => "PROBLEM",
        };
        table.row([mark, &item.about, &item.text]);
    }
    table.write(&mut out)
}
