//! The output of `nrictl verify`.

use crate::output::output;
use nri_control::{Verified, VerifiedResource, printable};
use std::io::{self, Write};

/// Prints the comparison as text or as JSON. Returns whether all cgroups have the requested values.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print(containers: &[Verified], json: bool) -> io::Result<bool> {
    let count_differing = |c: &Verified| c.settings.iter().filter(|s| !s.effective).count();
    let differing: usize = containers.iter().map(count_differing).sum();
    let failed = containers.iter().filter(|c| c.error.is_some()).count();
    let is_effective = differing == 0 && failed == 0;
    let mut out = output();
    if json {
        writeln!(
            out,
            "{}",
            serde_json::json!({"in_force": is_effective, "containers": containers})
        )?;
        return Ok(is_effective);
    }
    for container in containers {
        write!(out, "{}", printable(&container.id))?;
        for label in [&container.name, &container.engine] {
            if !label.is_empty() && *label != container.id {
                write!(out, "  {}", printable(label))?;
            }
        }
        writeln!(out)?;
        if let Some(error) = &container.error {
            writeln!(out, "  not verified: {}", printable(error))?;
        }
        for setting in &container.settings {
            print_resource(&mut out, setting)?;
        }
        for field in &container.nowhere {
            writeln!(out, "  -      {:<30} no cgroup file of this host has it", printable(field))?;
        }
    }
    let settings: usize = containers.iter().map(|c| c.settings.len()).sum();
    writeln!(out, "{} containers, {settings} settings, {differing} differ", containers.len())?;
    Ok(is_effective)
}

fn print_resource(out: &mut impl Write, setting: &VerifiedResource) -> io::Result<()> {
    let mark = if setting.effective { "ok" } else { "DRIFT" };
    let owner = setting.owner.as_deref().unwrap_or("engine");
    write!(
        out,
        "  {mark:<6} {:<30} {:<16} wanted {}",
        printable(&setting.field),
        printable(owner),
        printable(&setting.wanted)
    )?;
    match &setting.found {
        Ok(found) if !setting.effective => write!(out, ", found {found:?}")?,
        Ok(_) => {}
        Err(error) => write!(out, ", cannot be read: {}", printable(error))?,
    }
    writeln!(out, "  ({})", printable(&setting.file.0.to_string_lossy()))
}
