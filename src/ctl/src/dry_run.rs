//! `nrictl dry-run`: what plugins would change in the `config.json` of a container. It is `nrid
//! --dry-run` that asks them, a process beside the `nrid` that runs.

use crate::{
    error::CtlError, exit_code::PROBLEM, nrid, nrid_location::NridLocation, output::output,
    table::TextTable,
};
use clap::{ArgGroup, Args, ValueHint};
use nri_control::{DryRun, DryRunAnswer, DryRunEviction, DryRunPlugin, DryRunUpdate, LaunchError};
use nri_values::printable;
use rustix::process::geteuid;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;
use std::{
    io::{self, Write},
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

/// Exit code of a program that does not know an option.
const WRONG_COMMAND_LINE: i32 = 2;

/// Number of the last lines of output that are shown of a plugin that has failed.
const SHOWN_LINES: usize = 5;

/// The command line of `nrictl dry-run`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("subject").required(true).args(["bundle", "container"])))]
pub(crate) struct DryRunCommand {
    /// A bundle from which a container would be created.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    bundle: Option<PathBuf>,
    /// Id of that container. Default: the name of the directory.
    #[arg(long, value_name = "ID", requires = "bundle")]
    id: Option<String>,
    /// A container, as if it were created now: its id, else its name, else a prefix of its id.
    #[arg(long, value_name = "CONTAINER")]
    container: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON of a dry run, described in `docs/reference/nrictl.md`.
#[derive(Serialize)]
struct DryRunReport<'a> {
    id: &'a str,
    name: &'a str,
    engine: &'a str,
    pod: &'a str,
    runtime: &'a str,
    skipped: Option<&'a str>,
    refusal: Option<&'a str>,
    plugins: &'a [DryRunPlugin],
    changes: Vec<ChangeEntry<'a>>,
    updates: &'a [DryRunUpdate],
    evictions: &'a [DryRunEviction],
    ignored: &'a [String],
    notes: &'a [String],
    config: Option<&'a Value>,
    diff: String,
}

/// A change of one field.
#[derive(Serialize)]
struct ChangeEntry<'a> {
    plugin: &'a str,
    field: &'a str,
    path: &'a str,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
}

impl DryRunCommand {
    /// Asks the plugins, and prints the answer. Returns the exit code.
    ///
    /// # Errors
    /// The bundle or the container cannot be used, or `nrid` cannot be run.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<ExitCode, CtlError> {
        if !geteuid().is_root() {
            let reason = "a dry run launches plugins in namespaces of their own";
            return Err(CtlError::NeedsRoot(reason.to_owned()));
        }
        let found = self.ask(nrid)?;
        let mut out = output();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(&report(&found)).map_err(io::Error::from)?)?;
        } else {
            print(&mut out, &found)?;
        }
        Ok(if found.has_problem() { ExitCode::from(PROBLEM) } else { ExitCode::SUCCESS })
    }

    /// Runs `nrid --dry-run`.
    fn ask(&self, nrid: &NridLocation) -> Result<DryRun, CtlError> {
        let launcher = &nrid.launcher;
        let program = launcher.program.as_ref().ok_or(LaunchError::NotFound)?;
        let mut command = Command::new(program);
        command.arg("--dry-run").arg("--state-dir").arg(&launcher.state_dir);
        if let Some(config) = &launcher.config {
            command.arg("--config").arg(config);
        }
        if let Some(container) = &self.container {
            command.arg(format!("--container={container}"));
        }
        if let Some(bundle) = &self.bundle {
            command.arg("--bundle").arg(bundle);
        }
        if let Some(id) = &self.id {
            command.arg(format!("--id={id}"));
        }
        command.args(connected(nrid).into_iter().flat_map(|name| ["--connected".to_owned(), name]));
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|source| LaunchError::Spawn { program: program.clone(), source })?;
        if output.status.code() == Some(WRONG_COMMAND_LINE) {
            return Err(CtlError::NoDryRun(program.clone()));
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let mut lines: Vec<&str> = errors.lines().collect();
        let found = serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success());
        let error = if found.is_none() { lines.pop() } else { None };
        for line in lines {
            // A failed write to standard error cannot be reported anywhere.
            let _ = writeln!(io::stderr(), "{}", printable(line));
        }
        found.ok_or_else(|| {
            let status = output.status.to_string();
            let error = error.map_or(status, |line| line.trim_start_matches("nrid: ").to_owned());
            CtlError::DryRun(printable(&error).into_owned())
        })
    }
}

/// Returns the names of the external plugins that are connected to `nrid`; none if it does not run.
fn connected(nrid: &NridLocation) -> Vec<String> {
    let status = nrid::connect(nrid).ok().flatten().and_then(|client| nrid::status(&client).ok());
    let plugins = status.map(|status| status.plugins).unwrap_or_default();
    let is_connected = |plugin: &nri_control::PluginStatus| {
        !plugin.launched && !plugin.has_ended() && !plugin.name.is_empty()
    };
    plugins.into_iter().filter(is_connected).map(|plugin| plugin.name).collect()
}

/// Returns the unified diff of `config.json`; empty if it would not change, or be refused.
fn diff(found: &DryRun) -> String {
    let Some(after) = &found.after else { return String::new() };
    let (before, after) = (format!("{:#}\n", found.before), format!("{after:#}\n"));
    TextDiff::from_lines(&before, &after)
        .unified_diff()
        .header("config.json", "config.json (adjusted)")
        .to_string()
}

fn report(found: &DryRun) -> DryRunReport<'_> {
    let entries = found.changes.iter().flat_map(|of_plugin| {
        of_plugin.changes.iter().map(|change| ChangeEntry {
            plugin: &of_plugin.plugin,
            field: &change.field,
            path: &change.path,
            before: change.before.as_ref(),
            after: change.after.as_ref(),
        })
    });
    DryRunReport {
        id: &found.container,
        name: &found.name,
        engine: &found.engine,
        pod: &found.pod,
        runtime: &found.runtime,
        skipped: found.skipped.as_deref(),
        refusal: found.refusal.as_deref(),
        plugins: &found.plugins,
        changes: entries.collect(),
        updates: &found.updates,
        evictions: &found.evictions,
        ignored: &found.ignored,
        notes: &found.notes,
        config: found.after.as_ref(),
        diff: diff(found),
    }
}

fn print(out: &mut impl Write, found: &DryRun) -> io::Result<()> {
    let name = Some(&found.name).filter(|name| !name.is_empty() && **name != found.container);
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    let heading = format!("container {}{name}, runtime {}", found.container, found.runtime);
    writeln!(out, "{}", printable(&heading))?;
    let mut lines: Vec<String> = Vec::new();
    if let Some(reason) = &found.skipped {
        lines.push(format!("plugins do not adjust it: {reason}"));
    }
    lines.extend(found.notes.iter().map(|note| format!("note: {note}")));
    write_lines(out, &lines)?;
    if found.plugins.is_empty() {
        writeln!(out, "no plugins")?;
    }
    let mut table = TextTable::new(2);
    for plugin in &found.plugins {
        table.row([plugin.name.as_str(), &answer(plugin)]);
    }
    table.write(out)?;
    for plugin in &found.plugins {
        if plugin.answer == DryRunAnswer::Failed {
            let from = plugin.output.len().saturating_sub(SHOWN_LINES);
            let output = plugin.output.iter().skip(from);
            write_lines(out, output.map(|line| format!("{}: {line}", plugin.name)))?;
        }
    }
    writeln!(out)?;
    if let Some(refusal) = &found.refusal {
        return writeln!(out, "the creation would be refused: {}", printable(refusal));
    }
    let diff = diff(found);
    if diff.is_empty() {
        writeln!(out, "{}", without_changes(found))?;
    }
    write_lines(out, diff.lines())?;
    let mut lines: Vec<String> = Vec::new();
    for DryRunUpdate { container, plugins, fields } in &found.updates {
        lines.push(format!("update of {container} by {}: {fields}", plugins.join(", ")));
    }
    for DryRunEviction { container, plugin, reason } in &found.evictions {
        lines.push(format!("eviction of {container} by {plugin}: {reason}"));
    }
    lines.extend(found.ignored.iter().map(|part| format!("without effect: {part}")));
    for plugin in &found.plugins {
        let requests = plugin.requests.iter();
        lines.extend(requests.map(|request| format!("{} requested: {request}", plugin.name)));
    }
    write_lines(out, &lines)
}

/// Says what it means that nothing would change.
fn without_changes(found: &DryRun) -> &'static str {
    let is_asked = |plugin: &DryRunPlugin| plugin.answer == DryRunAnswer::Asked;
    let asked = found.plugins.iter().filter(|plugin| is_asked(plugin)).count();
    if found.skipped.is_some() || asked == found.plugins.len() {
        "config.json would not change"
    } else if asked > 0 {
        "the plugins that were asked would not change config.json"
    } else {
        "no plugin was asked, so it is not known what would change: a dry run asks plugins whose \
         [[plugin]] in the configuration has `dry_run = true`"
    }
}

/// Describes whether a plugin has replied.
fn answer(plugin: &DryRunPlugin) -> String {
    let state = match plugin.answer {
        DryRunAnswer::Asked => "asked",
        DryRunAnswer::NotAsked => "not asked",
        DryRunAnswer::Failed => "FAILED",
    };
    plugin.reason.as_ref().map_or_else(|| state.to_owned(), |reason| format!("{state}: {reason}"))
}

fn write_lines<T: AsRef<str>>(
    out: &mut impl Write,
    lines: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    lines.into_iter().try_for_each(|line| writeln!(out, "{}", printable(line.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_control::DryRunChanges;
    use nri_files::FieldChange;
    use serde_json::json;

    fn found() -> DryRun {
        let plugin = |name: &str, answer, reason: Option<&str>| DryRunPlugin {
            name: name.into(),
            answer,
            reason: reason.map(str::to_owned),
            requests: Vec::new(),
            output: vec!["first".into(), "last \x1b[2J".into()],
        };
        let change = FieldChange {
            field: "args".into(),
            path: "/process/args".into(),
            before: Some(json!(["a"])),
            after: Some(json!(["b"])),
        };
        DryRun {
            container: "c1".into(),
            name: "web".into(),
            runtime: "/usr/bin/runc".into(),
            plugins: vec![
                plugin("10-a", DryRunAnswer::Asked, None),
                plugin("20-b", DryRunAnswer::NotAsked, Some("no")),
                plugin("30-c", DryRunAnswer::Failed, Some("exited")),
            ],
            before: json!({"process": {"args": ["a"]}}),
            after: Some(json!({"process": {"args": ["b"]}})),
            changes: vec![DryRunChanges { plugin: "10-a".into(), changes: vec![change] }],
            updates: vec![DryRunUpdate {
                container: "c2".into(),
                plugins: vec!["10-a".into()],
                fields: "cpu.shares=7".into(),
            }],
            ..DryRun::default()
        }
    }

    fn printed(found: &DryRun) -> String {
        let mut out = Vec::new();
        print(&mut out, found).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_answer_is_a_diff_and_says_who_was_not_asked() {
        assert_eq!(
            printed(&found()),
            "container c1 (web), runtime /usr/bin/runc\n  \
             10-a  asked\n  20-b  not asked: no\n  30-c  FAILED: exited\n\
             30-c: first\n30-c: last \u{fffd}[2J\n\n\
             --- config.json\n+++ config.json (adjusted)\n@@ -1,7 +1,7 @@\n {\n   \"process\": {\n\
             \x20    \"args\": [\n-      \"a\"\n+      \"b\"\n     ]\n   }\n }\n\
             update of c2 by 10-a: cpu.shares=7\n"
        );
        let refused =
            DryRun { after: None, refusal: Some("plugin 10-a says no".into()), ..found() };
        let text = printed(&refused);
        assert!(text.ends_with("\nthe creation would be refused: plugin 10-a says no\n"), "{text}");
        assert!(refused.has_problem());
    }

    #[test]
    fn plugins_that_were_not_asked_are_not_said_to_change_nothing() {
        let last = |asked: usize, skipped: Option<&str>| {
            let mut found = DryRun { skipped: skipped.map(str::to_owned), ..found() };
            found.after = Some(found.before.clone());
            (found.changes, found.updates) = (Vec::new(), Vec::new());
            found.plugins.truncate(2);
            for (i, plugin) in found.plugins.iter_mut().enumerate() {
                plugin.answer =
                    if i < asked { DryRunAnswer::Asked } else { DryRunAnswer::NotAsked };
            }
            printed(&found).lines().last().unwrap().to_owned()
        };
        assert_eq!(last(2, None), "config.json would not change");
        assert_eq!(last(0, Some("it has opted out")), "config.json would not change");
        assert_eq!(last(1, None), "the plugins that were asked would not change config.json");
        let text = last(0, None);
        assert!(text.starts_with("no plugin was asked, so it is not known"), "{text}");
    }

    #[test]
    fn the_json_has_the_documented_members() {
        let value = serde_json::to_value(report(&found())).unwrap();
        assert_eq!(value["changes"][0]["plugin"], "10-a");
        assert_eq!(value["changes"][0]["after"], json!(["b"]));
        assert_eq!(value["plugins"][1]["answer"], "not_asked");
        assert_eq!(value["config"]["process"]["args"], json!(["b"]));
        assert!(value["diff"].as_str().unwrap().contains("+      \"b\""));
        let document =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/nrictl.md");
        let document = std::fs::read_to_string(document).unwrap();
        let section = document.split("\n## ").find(|s| s.starts_with("dry-run")).unwrap();
        for member in value.as_object().unwrap().keys() {
            assert!(section.contains(&format!("`{member}`")), "{member}");
        }
    }
}
