//! The output of `nrictl reload`.

use crate::{
    error::CtlError, nrid, nrid_location::NridLocation, output::output, uncalled::Uncalled,
};
use nri_control::{PluginStatus, Reloaded, Status};
use nri_values::printable;
use std::{
    io::{self, Write},
    path::Path,
};

/// Prints the result as text or as JSON. Returns false if a plugin could not be launched, or if
/// nothing usable exists at a path in the configuration.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print(
    reloaded: &Reloaded,
    hidden: Vec<String>,
    uncalled: Option<Uncalled>,
    json: bool,
) -> io::Result<bool> {
    let is_ok = reloaded.missing.is_empty()
        && !reloaded.plugins.iter().any(|p| matches!(p.change.as_str(), "failed" | "unusable"));
    let mut out = output();
    if json {
        let uncalled = uncalled.map(|uncalled| uncalled.to_string());
        let value = serde_json::json!({
            "reloaded": is_ok, "result": reloaded, "uncalled": uncalled, "hidden": hidden
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
        let file = plugin.config.as_ref().map(|file| format!(" ({})", file.as_path().display()));
        let text = format!("{}{why}{}", plugin.change, file.unwrap_or_default());
        writeln!(out, "{:<24} {}", printable(&plugin.name), printable(&text))?;
        let of = if plugin.change == "failed" { " of its previous configuration" } else { "" };
        for warning in &plugin.warnings {
            writeln!(out, "  warning{of}: {}", printable(warning))?;
        }
    }
    for hidden in hidden {
        writeln!(out, "warning: {}", printable(&hidden))?;
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

/// Returns the result of a reload. If `nrid` was started just before it, the plugins that it has
/// kept were launched.
pub(crate) fn since_start(mut reloaded: Reloaded, is_start: bool) -> Reloaded {
    for plugin in reloaded.plugins.iter_mut().filter(|plugin| is_start && plugin.change == "kept") {
        "launched".clone_into(&mut plugin.change);
    }
    reloaded
}

/// Describes the files `NAME.conf` that no plugin reads, since its plugin reads `NN-NAME.conf`.
pub(crate) fn hidden_configurations(plugins: &[PluginStatus]) -> Vec<String> {
    let is_read = |file: &Path| {
        plugins.iter().any(|plugin| plugin.config.as_ref().is_some_and(|c| c.as_path() == file))
    };
    let hidden = |plugin: &PluginStatus| {
        let (used, name) = (plugin.config.as_ref()?.as_path(), &plugin.name);
        let hidden = used.with_file_name(format!("{}.conf", name.split_once('-')?.1));
        let is_hidden = used != hidden && hidden.exists() && !is_read(&hidden);
        is_hidden.then(|| {
            let (used, hidden) = (used.display(), hidden.display());
            format!("{hidden} has no effect: plugin {name} reads {used}, which comes first")
        })
    };
    plugins.iter().filter_map(hidden).collect()
}

/// Starts `nrid` if it does not run, and prints which of its plugins are not active.
///
/// # Errors
/// It does not start, or standard output cannot be written to.
pub(crate) fn start(nrid: &NridLocation) -> Result<(), CtlError> {
    nrid::start(nrid)?;
    print_plugins(nrid)
}

/// Replaces `nrid` by the installed program, and prints which of its plugins are not active.
///
/// # Errors
/// It is not replaced, or standard output cannot be written to.
pub(crate) fn restart(nrid: &NridLocation) -> Result<(), CtlError> {
    nrid::restart(nrid)?;
    print_plugins(nrid)
}

/// Prints which plugins of an `nrid` that has just started are not active, and the warnings of all.
fn print_plugins(nrid: &NridLocation) -> Result<(), CtlError> {
    let status = nrid::connect(nrid).ok().flatten().and_then(|client| nrid::status(&client).ok());
    Ok(status.map_or(Ok(()), |status| print_inactive(&status))?)
}

fn print_inactive(status: &Status) -> io::Result<()> {
    let mut out = output();
    for plugin in &status.plugins {
        if plugin.has_ended() {
            let why = plugin.last_error.as_deref().unwrap_or("it has ended");
            writeln!(out, "{:<24} failed: {}", printable(&plugin.name), printable(why))?;
        }
        for warning in &plugin.warnings {
            writeln!(out, "{:<24} warning: {}", printable(&plugin.name), printable(warning))?;
        }
    }
    Ok(())
}

/// Prints that no `nrid` runs.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print_not_running(json: bool) -> io::Result<()> {
    let text = if json {
        "{\"running\":false}"
    } else {
        "nrid is not running: `nrictl start` starts it, which reads all files, and says what \
         is wrong with them"
    };
    writeln!(output(), "{text}")
}
