//! The output of `nrictl reload`.

use crate::{output::output, uncalled::Uncalled};
use nri_control::{Reloaded, printable};
use std::io::{self, Write};

/// Prints the result as text or as JSON. Returns false if a plugin could not be launched, or if
/// nothing usable exists at a path in the configuration.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print(
    reloaded: &Reloaded,
    uncalled: Option<Uncalled>,
    json: bool,
) -> io::Result<bool> {
    let is_ok = reloaded.missing.is_empty()
        && !reloaded.plugins.iter().any(|p| matches!(p.change.as_str(), "failed" | "unusable"));
    let mut out = output();
    if json {
        let uncalled = uncalled.map(|uncalled| uncalled.to_string());
        let value = serde_json::json!({
            "reloaded": is_ok, "result": reloaded, "uncalled": uncalled
        });
        writeln!(out, "{value}")?;
        return Ok(is_ok);
    }
    let config = reloaded
        .config
        .as_ref()
        .map_or("none: defaults".into(), |c| c.0.to_string_lossy().into_owned());
    let changed = if reloaded.changed { "changed" } else { "as before" };
    writeln!(out, "configuration    {} ({changed})", printable(&config))?;
    for plugin in &reloaded.plugins {
        let why = if plugin.why.is_empty() { String::new() } else { format!(": {}", plugin.why) };
        writeln!(out, "{:<24} {}{}", printable(&plugin.name), plugin.change, printable(&why))?;
    }
    for key in &reloaded.needs_restart {
        writeln!(out, "needs `nrictl restart`: {}", printable(key))?;
    }
    for missing in &reloaded.missing {
        writeln!(out, "problem: {}", printable(missing))?;
    }
    for note in &reloaded.notes {
        writeln!(out, "note: {}", printable(note))?;
    }
    if let Some(uncalled) = uncalled {
        writeln!(out, "{}", printable(&uncalled.to_string()))?;
    }
    Ok(is_ok)
}

/// Prints that no `nrid` runs.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print_not_running(json: bool) -> io::Result<()> {
    let text = match json {
        true => "{\"running\":false}",
        false => "nrid is not running: it reads its configuration when it starts",
    };
    writeln!(output(), "{text}")
}
