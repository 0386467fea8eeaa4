//! The output of `install` and `uninstall`.

use super::plan::{Content, InstallPlan, InstallStep};
use crate::{
    install::{
        editing::diff,
        engines::{
            kind::TargetEngine,
            request::{EngineNeeds, InstallRequest, NriChoice, OwnNri},
        },
        error::InstallError,
        install_root::InstallRoot,
    },
    nrid,
    nrid_location::NridLocation,
    output::output,
};
use serde::Serialize;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

const SOCKET_UNIT: &str = "nri-container-runtime.socket";

/// Report of the changes that a command made, or would make.
#[derive(Debug, Serialize)]
pub(crate) struct InstallReport {
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
    reload_nrid: Option<&'static str>,
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
    /// Returns the report of a plan.
    pub(crate) fn new(
        root: &InstallRoot,
        engine: TargetEngine,
        dry_run: bool,
        plan: InstallPlan,
    ) -> Self {
        let manifest = root.manifest();
        let steps = plan.steps.iter();
        let files: Vec<ChangedFile> =
            steps.map(|step| changed_file(step, &manifest, dry_run)).collect();
        let must_reload = plan.steps.iter().any(|step| step.path != manifest);
        Self {
            engine: engine.name(),
            dry_run,
            changed: !files.is_empty(),
            files,
            notes: plan.notes,
            engine_nri: None,
            reload: engine.facts().reload.filter(|_| must_reload).map(|c| root.systemctl(c)),
            reload_nrid: None,
            start: None,
            usage: Vec::new(),
        }
    }

    /// Adds the hints that are printed after an installation.
    pub(crate) fn installed(
        mut self,
        request: &InstallRequest<'_>,
        engine: TargetEngine,
        needs: EngineNeeds,
    ) -> Self {
        self.notes.extend(needs.notes);
        self.notes.extend(nri_note(engine, request.nri, needs.nri));
        self.engine_nri = engine.facts().has_nri.then_some(needs.nri);
        // An earlier call may not have been followed by this command.
        let reload = engine.facts().reload.filter(|_| self.reload.is_none());
        let reload = reload.map(|command| request.root.systemctl(command));
        self.notes.extend(
            reload.map(|reload| format!("if the engine has not read its files since: {reload}")),
        );
        self.usage = needs.usage;
        let has_unit = |dir: &PathBuf| request.root.exists(&dir.join(SOCKET_UNIT));
        self.start = Some(match request.root.unit_dirs().iter().any(has_unit) {
            true => request.root.systemctl(&format!("systemctl enable --now {SOCKET_UNIT}")),
            false => "nrictl start".to_owned(),
        });
        self
    }

    /// Adds the hints that are printed after an uninstallation.
    pub(crate) fn uninstalled(mut self, root: &InstallRoot, engine: TargetEngine) -> Self {
        self.reload = self.reload.and(engine.facts().forget.map(|c| root.systemctl(c)));
        if self.changed {
            let note = "containers that were created with the wrapper cannot be started without it";
            self.notes.push(note.to_owned());
        }
        self
    }

    /// Adds the command for an `nrid` that runs with another configuration than the file has now.
    pub(crate) fn with_nrid(mut self, nrid: &NridLocation) -> Self {
        let is_due = nrid::running_status(nrid).is_some_and(|status| nrid.is_outdated(&status));
        self.reload_nrid = is_due.then_some("nrictl reload");
        self
    }

    /// Prints the report as text or as JSON.
    pub(crate) fn print(&self, json: bool) -> io::Result<()> {
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
        if let Some(reload) = &self.reload {
            writeln!(out, "to make the engine read its files:   {reload}")?;
        }
        if let Some(reload) = &self.reload_nrid {
            writeln!(out, "to make nrid read its configuration: {reload}")?;
        }
        if let Some(start) = &self.start {
            writeln!(out, "to let external plugins connect:     {start}")?;
        }
        for usage in &self.usage {
            writeln!(out, "to try the wrapper:                  {usage}")?;
        }
        Ok(())
    }
}

/// Prints an error as JSON.
pub(crate) fn print_error(error: &InstallError) -> io::Result<()> {
    writeln!(output(), "{}", serde_json::json!({"error": error.to_string()}))
}

fn changed_file(step: &InstallStep, manifest: &Path, dry_run: bool) -> ChangedFile {
    let how = match (&step.before, &step.after) {
        (Content::Nothing, _) => "created",
        (_, Content::Nothing) => "removed",
        _ => "changed",
    };
    let path = step.path.to_string_lossy().into_owned();
    // Diffs of the manifest and of backups are of no use to an administrator.
    let is_shown = dry_run && step.like.is_none() && step.path != manifest;
    let (before, after) = (step.before.bytes(), step.after.bytes());
    let diff =
        (is_shown && (before, after) != (None, None)).then(|| diff::unified(&path, before, after));
    ChangedFile { path, how, diff }
}

/// Returns a note about the engine's own NRI and which NRI adapts the engine's containers.
fn nri_note(engine: TargetEngine, choice: Option<NriChoice>, own: OwnNri) -> Option<String> {
    let name = engine.name();
    let state = match own {
        OwnNri::None if choice == Some(NriChoice::Engine) => {
            return Some(format!(
                "{name} has no NRI of its own in this version: with --nri engine no plugin adapts \
                 its containers"
            ));
        }
        OwnNri::None => return None,
        OwnNri::On => "is on",
        OwnNri::Off => "is off",
        OwnNri::Unknown => "is on or off, depending on the engine's version, which is unknown",
    };
    let effect = match (choice, own) {
        (Some(NriChoice::Ours), OwnNri::On | OwnNri::Unknown) => {
            "it is switched off now, and ours adapts the engine's containers"
        }
        (Some(NriChoice::Ours), _) => "ours adapts its containers",
        (Some(NriChoice::Engine), OwnNri::Off) => {
            "with --nri engine, no plugin adapts its containers while it is off"
        }
        (Some(NriChoice::Engine), _) => "the wrapper passes its containers through unchanged",
        (_, OwnNri::Off) => "ours adapts its containers",
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
