//! The output of `install` and `uninstall`.

use super::{
    engines::{
        kind::TargetEngine,
        request::{InstallRequest, NriChoice, OwnNri},
    },
    error::InstallError,
    install_root::InstallRoot,
    write::{Content, PathChange},
};
use crate::{nrid, nrid_location::NridLocation, output::output};
use serde::Serialize;
use similar::TextDiff;
use std::{
    io::{self, Write},
    path::PathBuf,
};

const SOCKET_UNIT: &str = "nri-container-runtime.socket";

/// Report of the changes that a command made, or would make.
#[derive(Debug, Serialize)]
pub(super) struct InstallReport {
    engine: &'static str,
    dry_run: bool,
    /// Whether any file has changed, or would change.
    changed: bool,
    files: Vec<ChangedFile>,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_nri: Option<OwnNri>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reload_nrid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    usage: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ChangedFile {
    path: String,
    how: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

impl InstallReport {
    /// Returns the report of the changes of a command.
    pub(super) fn new(
        root: &InstallRoot,
        engine: TargetEngine,
        (dry_run, is_install): (bool, bool),
        changes: &[PathChange],
        notes: Vec<String>,
    ) -> Self {
        let record = root.record();
        let must_reload = changes.iter().any(|change| change.path != record);
        Self {
            engine: engine.name(),
            dry_run,
            changed: !changes.is_empty(),
            files: changes.iter().map(|c| changed_file(c, dry_run && c.path != record)).collect(),
            notes,
            engine_nri: None,
            reload: engine.reload(is_install).filter(|_| must_reload).map(|c| root.systemctl(&c)),
            reload_nrid: None,
            start: None,
            usage: Vec::new(),
        }
    }

    /// Adds the hints that are printed after an installation.
    pub(super) fn installed(
        mut self,
        request: &InstallRequest<'_>,
        engine: TargetEngine,
        nri: OwnNri,
        usage: Vec<String>,
    ) -> Self {
        self.notes.extend(nri_note(engine, request.nri, nri));
        self.engine_nri = engine.facts().nri.map(|_| nri);
        // An earlier call may not have been followed by this command.
        let reload = engine.reload(true).filter(|_| self.reload.is_none());
        let reload = reload.map(|command| request.root.systemctl(&command));
        self.notes.extend(
            reload.map(|reload| format!("if the engine has not read its files since: {reload}")),
        );
        self.usage = usage;
        let has_unit = |dir: &PathBuf| request.root.exists(&dir.join(SOCKET_UNIT));
        self.start = Some(if request.root.unit_dirs().iter().any(has_unit) {
            request.root.systemctl(&format!("systemctl enable --now {SOCKET_UNIT}"))
        } else {
            "nrictl start".to_owned()
        });
        self
    }

    /// Adds the hint that is printed after an uninstallation.
    pub(super) fn uninstalled(mut self) -> Self {
        if self.changed {
            let note = "containers that were created with the wrapper cannot be started without it";
            self.notes.push(note.to_owned());
        }
        self
    }

    /// Adds the command for an `nrid` that runs with another configuration than the file has now.
    pub(super) fn with_nrid(mut self, nrid: &NridLocation) -> Self {
        let is_due = nrid::running_status(nrid).is_some_and(|status| nrid.is_outdated(&status));
        self.reload_nrid = is_due.then(|| "nrictl reload".to_owned());
        self
    }

    /// Prints the report as text or as JSON.
    pub(super) fn print(&self, json: bool) -> io::Result<()> {
        let mut out = output();
        if json {
            return writeln!(out, "{}", serde_json::to_string(self).unwrap_or_default());
        }
        if !self.changed {
            writeln!(out, "{}: nothing to do", self.engine)?;
        }
        for file in &self.files {
            let prefix = if self.dry_run { "would be " } else { "" };
            writeln!(out, "{}: {prefix}{}", file.path, file.how)?;
            if let Some(diff) = &file.diff {
                write!(out, "{diff}")?;
            }
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        for (purpose, command) in [
            ("to make the engine read its files:   ", &self.reload),
            ("to make nrid read its configuration: ", &self.reload_nrid),
            ("to let external plugins connect:     ", &self.start),
        ] {
            command.iter().try_for_each(|command| writeln!(out, "{purpose}{command}"))?;
        }
        for usage in &self.usage {
            writeln!(out, "to try the wrapper:                  {usage}")?;
        }
        Ok(())
    }
}

/// Prints an error as JSON.
pub(super) fn print_error(error: &InstallError) -> io::Result<()> {
    writeln!(output(), "{}", serde_json::json!({"error": error.to_string()}))
}

/// Describes a change, with a unified diff if the change has one and `is_shown`.
fn changed_file(change: &PathChange, is_shown: bool) -> ChangedFile {
    let how = match (&change.before, &change.after) {
        (Content::Nothing, _) => "created",
        (_, Content::Nothing) => "removed",
        _ => "changed",
    };
    let path = change.path.to_string_lossy().into_owned();
    let [before, after] = [&change.before, &change.after].map(Content::bytes);
    let diff = (is_shown && (before, after) != (None, None)).then(|| {
        let name = |bytes: Option<&[u8]>| bytes.map_or("/dev/null", |_| &path).to_owned();
        let text =
            |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let (old, new) = (text(before), text(after));
        let diff = TextDiff::from_lines(&old, &new);
        diff.unified_diff().header(&name(before), &name(after)).to_string()
    });
    ChangedFile { path, how, diff }
}

/// Returns a note about the engine's own NRI and which NRI adapts the engine's containers.
fn nri_note(engine: TargetEngine, choice: Option<NriChoice>, own: OwnNri) -> Option<String> {
    use NriChoice::{Engine, Ours};
    let name = engine.name();
    let state = match own {
        OwnNri::None => {
            let note = "has no NRI of its own in this version: with --nri engine no plugin adapts \
                        its containers";
            return (choice == Some(Engine)).then(|| format!("{name} {note}"));
        }
        OwnNri::On => "is on",
        OwnNri::Off => "is off",
        OwnNri::Unknown => "is on or off, depending on the engine's version, which is unknown",
    };
    let effect = match (choice, own) {
        (Some(Engine), OwnNri::Off) => {
            "with --nri engine, no plugin adapts its containers while it is off"
        }
        (Some(Engine), _) => "the wrapper passes its containers through unchanged",
        (_, OwnNri::Off) => "ours adapts its containers",
        (Some(Ours), _) => "it is switched off now, and ours adapts the engine's containers",
        _ if engine == TargetEngine::Docker => {
            "ours adapts its containers as well; --nri ours switches it off"
        }
        _ => {
            "while it is on, the wrapper passes the engine's containers through unchanged; --nri \
             ours switches it off"
        }
    };
    Some(format!("{name} has NRI of its own, which {state}; {effect}"))
}
