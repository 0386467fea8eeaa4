//! What `install` and `uninstall` print.

use super::{
    Common, diff,
    engine::{Asked, Engine, Needs, OwnNri},
    error::InstallError,
    manifest::MANIFEST,
    own::Nri,
    plan::{Content, Plan, Step},
    root::Root,
};
use serde::Serialize;
use std::{
    io::{self, Write},
    path::Path,
};

/// Units of a package.
const UNIT_DIRS: &[&str] =
    &["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
const SOCKET_UNIT: &str = "nri-container-runtime.socket";

/// All that is said.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    engine: &'static str,
    dry_run: bool,
    /// Whether anything is, or would be, other than before.
    changed: bool,
    files: Vec<Changed>,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_nri: Option<OwnNri>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reload: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    usage: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Changed {
    path: String,
    how: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

impl Report {
    /// After `install`.
    pub(crate) fn installed(
        root: &Root,
        common: &Common,
        asked: &Asked<'_>,
        needs: Needs,
        plan: Plan,
    ) -> Self {
        let mut report = Self::new(common, plan);
        report.notes.extend(needs.notes);
        report.notes.extend(nri_notes(common.engine, asked.nri, needs.nri));
        report.engine_nri = common.engine.has_nri().then_some(needs.nri);
        report.usage = needs.usage;
        let unit = UNIT_DIRS.iter().any(|dir| root.exists(&Path::new(dir).join(SOCKET_UNIT)));
        let start = if unit {
            format!("systemctl enable --now {SOCKET_UNIT}")
        } else {
            "nrictl start".to_owned()
        };
        report.start = Some(start);
        report
    }

    /// After `uninstall`.
    pub(crate) fn uninstalled(common: &Common, plan: Plan) -> Self {
        let mut report = Self::new(common, plan);
        report.reload = report.reload.and(common.engine.forget());
        if report.changed {
            report.notes.push(
                "containers that were created with it cannot be started again without it"
                    .to_owned(),
            );
        }
        report
    }

    fn new(common: &Common, plan: Plan) -> Self {
        let files: Vec<Changed> =
            plan.steps.iter().map(|step| changed(step, common.dry_run)).collect();
        let engine = common.engine.name();
        let engine_changed = plan.steps.iter().any(|step| step.path != Path::new(MANIFEST));
        Self {
            engine,
            dry_run: common.dry_run,
            changed: !files.is_empty(),
            files,
            notes: plan.notes,
            engine_nri: None,
            reload: common.engine.reload().filter(|_| engine_changed),
            start: None,
            usage: Vec::new(),
        }
    }

    /// Prints it for people, or for programs.
    pub(crate) fn print(&self, json: bool) -> io::Result<()> {
        let mut out = crate::output::output();
        if json {
            return writeln!(out, "{}", serde_json::to_string(self).unwrap_or_default());
        }
        if !self.changed {
            writeln!(out, "{}: nothing to do", self.engine)?;
        }
        for file in &self.files {
            let would = if self.dry_run { "would be " } else { "" };
            writeln!(out, "{}: {would}{}", file.path, file.how)?;
            if let Some(diff) = &file.diff {
                write!(out, "{diff}")?;
            }
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        if let Some(reload) = self.reload {
            writeln!(out, "the engine reads it after:           {reload}")?;
        }
        if let Some(start) = &self.start {
            writeln!(out, "for plugins that connect themselves: {start}")?;
        }
        for usage in &self.usage {
            writeln!(out, "to try it:                           {usage}")?;
        }
        Ok(())
    }
}

/// For programs.
pub(crate) fn print_error(error: &InstallError) -> io::Result<()> {
    writeln!(crate::output::output(), "{}", serde_json::json!({"error": error.to_string()}))
}

fn changed(step: &Step, dry_run: bool) -> Changed {
    let how = match (&step.before, &step.after) {
        (Content::Nothing, _) => "created",
        (_, Content::Nothing) => "removed",
        _ => "changed",
    };
    let path = step.path.to_string_lossy().into_owned();
    // The manifest is for us, and copies of files say nothing new.
    let telling = step.like.is_none() && step.path != Path::new(MANIFEST);
    let both = (step.before.bytes(), step.after.bytes());
    let diff =
        (dry_run && telling && both != (None, None)).then(|| diff::unified(&path, both.0, both.1));
    Changed { path, how, diff }
}

fn nri_notes(engine: Engine, asked: Option<Nri>, own: OwnNri) -> Vec<String> {
    let name = engine.name();
    let state = match own {
        OwnNri::None if asked == Some(Nri::Engine) => {
            return vec![format!(
                "{name} has no NRI of its own in this version: with --nri engine no plugin adapts its containers"
            )];
        }
        OwnNri::None => return vec![],
        OwnNri::On => "is on",
        OwnNri::Off => "is off",
        OwnNri::Unknown => "is on or off by its version, which is not known here",
    };
    let then = match (asked, own) {
        (Some(Nri::Ours), OwnNri::On | OwnNri::Unknown) => {
            "it is switched off now, ours is in charge"
        }
        (Some(Nri::Ours), _) => "ours is in charge",
        (Some(Nri::Engine), OwnNri::Off) => {
            "while it is, no plugin adapts its containers: --nri engine"
        }
        (Some(Nri::Engine), _) => {
            "it alone is in charge, and its containers pass through unchanged"
        }
        (_, OwnNri::Off) => "ours is in charge",
        _ => "while it is on, its containers pass through unchanged; --nri ours changes that",
    };
    vec![format!("{name} has NRI of its own, which {state}; {then}")]
}
