//! The output of `nrictl verify`: the values of plugins and those that differ; with `--all`, the
//! values of engines, too.

use crate::{
    engine_containers::{explain_unknown, or_unknown},
    error::CtlError,
    exit_code::problem_unless,
    nrid,
    nrid_location::NridLocation,
    output::output,
    table::TextTable,
    units::{counted, size_of_field},
};
use nri_control::{Verified, VerifiedResource};
use nri_files::MissedPlugin;
use nri_values::printable;
use serde::Serialize;
use serde_json::Value;
use std::{
    borrow::Cow,
    io::{self, Write},
    process::ExitCode,
};

/// Lets `nrid` compare containers with their cgroups, and prints the report.
///
/// # Errors
/// `nrid` does not run or does not reply, a container is unknown, or standard output cannot be
/// written to.
pub(crate) fn run(
    nrid: &NridLocation,
    containers: &[String],
    all: bool,
    json: bool,
) -> Result<ExitCode, CtlError> {
    let wanted = containers.first().map_or("", String::as_str);
    let mut verified = or_unknown(nrid::verify(nrid, containers), nrid, wanted)?;
    explain_unknown(&mut verified, nrid);
    let report = VerifyReport::new(&verified, all, !containers.is_empty());
    report.print(json)?;
    Ok(problem_unless(report.is_effective()))
}

/// The comparison of resources with cgroups. Its JSON is described in `docs/reference/nrictl.md`.
#[derive(Debug, Serialize)]
struct VerifyReport<'a> {
    effective: bool,
    containers: Vec<ContainerReport<'a>>,
    #[serde(skip)]
    counts: SettingCounts,
}

/// Number of settings, including those that are not shown.
#[derive(Debug, Default)]
struct SettingCounts {
    of_plugins: usize,
    of_engines: usize,
    differing: usize,
}

#[derive(Debug, Serialize)]
struct ContainerReport<'a> {
    id: &'a str,
    name: &'a str,
    engine: &'a str,
    pod: &'a str,
    /// Plugins without which the container was created.
    missed: &'a [MissedPlugin],
    /// Reason why nothing was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    settings: Vec<SettingReport<'a>>,
    unsupported: &'a [String],
    /// Whether the container is shown although nothing of it is.
    #[serde(skip)]
    requested: bool,
    /// Whether the container should have been compared, and was not.
    #[serde(skip)]
    failed: bool,
}

#[derive(Debug, Serialize)]
struct SettingReport<'a> {
    field: &'a str,
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    follows: Option<&'a str>,
    wanted: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<&'a str>,
    /// Reason why the file cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    effective: bool,
    file: Cow<'a, str>,
}

impl<'a> VerifyReport<'a> {
    /// Selects what is shown: the settings of plugins and those that differ, or `all`. Without
    /// any, a container is shown if the command line names it (`requested`). Only then is it a
    /// failure that nothing was compared because the container has ended: containers end at any
    /// time, and their records a moment later.
    fn new(verified: &'a [Verified], all: bool, requested: bool) -> Self {
        let mut counts = SettingCounts::default();
        let containers: Vec<_> = verified
            .iter()
            .map(|container| {
                counts.add(&container.settings);
                ContainerReport::new(container, all, requested)
            })
            .collect();
        let failed = containers.iter().any(|container| container.failed);
        Self { effective: counts.differing == 0 && !failed, containers, counts }
    }

    /// Whether all containers were compared, and have the requested values.
    fn is_effective(&self) -> bool {
        self.effective
    }

    /// Prints the report as text or as JSON.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    fn print(&self, json: bool) -> io::Result<()> {
        let mut out = output();
        if json {
            return writeln!(out, "{}", serde_json::to_string(self)?);
        }
        for container in &self.containers {
            container.print(&mut out)?;
        }
        writeln!(out, "{}", self.summary())
    }

    /// Returns the numbers of containers and settings.
    fn summary(&self) -> String {
        let SettingCounts { of_plugins, of_engines, differing } = self.counts;
        let compared = self.containers.iter().filter(|container| container.error.is_none());
        let containers = counted(compared.count(), "container");
        let failed = match self.containers.iter().filter(|container| container.failed).count() {
            0 => String::new(),
            failed => format!(", {failed} not compared"),
        };
        let settings = counted(of_plugins, "setting");
        let differ = if differing == 1 { "differs" } else { "differ" };
        format!(
            "{containers}, {settings} of plugins, {of_engines} of engines, \
             {differing} {differ}{failed}"
        )
    }
}

impl SettingCounts {
    fn add(&mut self, settings: &[VerifiedResource]) {
        let count = |has: fn(&&VerifiedResource) -> bool| settings.iter().filter(has).count();
        self.of_plugins += count(|setting| setting.owner.is_some());
        self.of_engines += count(|setting| setting.owner.is_none());
        self.differing += count(|setting| !setting.effective);
    }
}

impl<'a> ContainerReport<'a> {
    fn new(container: &'a Verified, all: bool, requested: bool) -> Self {
        let is_shown =
            |setting: &&VerifiedResource| all || setting.owner.is_some() || !setting.effective;
        let shown = container.settings.iter().filter(is_shown);
        Self {
            id: &container.id,
            name: &container.name,
            engine: &container.engine,
            pod: &container.pod,
            missed: &container.missed,
            error: container.error.as_deref(),
            failed: container.error.is_some() && (requested || !container.ended),
            settings: shown.map(SettingReport::new).collect(),
            unsupported: &container.nowhere,
            requested: requested || all,
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let has_settings = !self.settings.is_empty() || !self.unsupported.is_empty();
        let is_shown = has_settings || !self.missed.is_empty() || self.failed;
        if !is_shown && !self.requested {
            return Ok(());
        }
        write!(out, "{}", printable(self.id))?;
        for label in [self.name, self.engine] {
            if !label.is_empty() && label != self.id {
                write!(out, "  {}", printable(label))?;
            }
        }
        writeln!(out)?;
        if let Some(error) = self.error {
            writeln!(out, "  not verified: {}", printable(error))?;
        }
        for MissedPlugin { plugin, why } in self.missed {
            writeln!(out, "  missed {}: {}", printable(plugin), printable(why))?;
        }
        let mut table = TextTable::new(2);
        for setting in &self.settings {
            table.row(setting.cells());
        }
        table.write(out)?;
        for field in self.unsupported {
            writeln!(out, "  -  {}  no cgroup file of this host has it", printable(field))?;
        }
        Ok(())
    }
}

impl<'a> SettingReport<'a> {
    fn new(setting: &'a VerifiedResource) -> Self {
        Self {
            field: &setting.field,
            owner: setting.owner.as_deref(),
            follows: setting.follows.as_deref(),
            wanted: &setting.wanted,
            found: setting.found.as_deref().ok(),
            error: setting.found.as_ref().err().map(String::as_str),
            effective: setting.effective,
            file: setting.file.0.to_string_lossy(),
        }
    }

    fn cells(&self) -> [String; 5] {
        let mark = if self.effective { "ok" } else { "DRIFT" };
        let owner = match (self.owner, self.follows) {
            (None, _) => "engine".to_owned(),
            (Some(plugin), None) => plugin.to_owned(),
            (Some(plugin), Some(field)) => format!("{plugin} ({field})"),
        };
        let size = |text: &str| size_of_field(self.field, &text.trim().parse::<Value>().ok()?);
        let wanted = size(self.wanted).unwrap_or_else(|| self.wanted.to_owned());
        let wanted = match (self.found, self.error) {
            (_, Some(error)) => format!("wanted {wanted}, cannot be read: {error}"),
            (Some(found), None) if !self.effective => {
                let found = size(found).unwrap_or_else(|| format!("{found:?}"));
                format!("wanted {wanted}, found {found}")
            }
            _ => format!("wanted {wanted}"),
        };
        [mark.to_owned(), self.field.to_owned(), owner, wanted, format!("({})", self.file)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn setting(field: &str, owner: Option<&str>, found: Result<&str, &str>) -> VerifiedResource {
        VerifiedResource {
            field: field.to_owned(),
            file: "/cgroup/file".into(),
            wanted: "7".to_owned(),
            found: found.map(str::to_owned).map_err(str::to_owned),
            effective: found == Ok("7"),
            owner: owner.map(str::to_owned),
            follows: owner.filter(|_| field == "memory.swap").map(|_| "memory.limit".to_owned()),
        }
    }

    fn containers() -> [Verified; 2] {
        let settings = vec![
            setting("pids.limit", None, Ok("7")),
            setting("memory.limit", Some("10-a"), Ok("7")),
            setting("memory.swap", Some("10-a"), Ok("8")),
            setting("cpu.shares", None, Err("no such file")),
        ];
        let id = |id: &str| Verified { id: id.to_owned(), ..Verified::default() };
        let nowhere = vec!["memory.kernel".to_owned()];
        [
            Verified {
                name: "web".into(),
                engine: "docker".into(),
                pod: "p1".into(),
                missed: vec![MissedPlugin { plugin: "20-b".into(), why: "it hangs".into() }],
                settings,
                nowhere,
                ..id("c1")
            },
            Verified { settings: vec![setting("pids.limit", None, Ok("7"))], ..id("c2") },
        ]
    }

    fn fields(report: &VerifyReport<'_>, container: usize) -> Vec<String> {
        report.containers[container].settings.iter().map(|s| s.field.to_owned()).collect()
    }

    #[test]
    fn values_of_engines_are_shown_if_they_differ_or_on_request() {
        let verified = containers();
        let report = VerifyReport::new(&verified, false, false);
        assert!(!report.is_effective());
        assert_eq!(fields(&report, 0), ["memory.limit", "memory.swap", "cpu.shares"]);
        let mut text = Vec::new();
        report.containers.iter().for_each(|c| c.print(&mut text).unwrap());
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "c1  web  docker\n\
             \u{20} missed 20-b: it hangs\n\
             \u{20} ok     memory.limit  10-a                 wanted 7 B\
             \x20                             (/cgroup/file)\n\
             \u{20} DRIFT  memory.swap   10-a (memory.limit)  wanted 7 B, found 8 B\
             \x20                  (/cgroup/file)\n\
             \u{20} DRIFT  cpu.shares    engine               wanted 7, cannot be read: no such\
             \x20file  (/cgroup/file)\n\
             \u{20} -  memory.kernel  no cgroup file of this host has it\n"
        );
        assert_eq!(report.summary(), "2 containers, 2 settings of plugins, 3 of engines, 2 differ");
        let all = VerifyReport::new(&verified, true, false);
        assert_eq!((fields(&all, 0).len(), fields(&all, 1).len()), (4, 1));
        let mut text = Vec::new();
        VerifyReport::new(&verified, false, true).containers[1].print(&mut text).unwrap();
        assert_eq!(text, b"c2\n");
    }

    #[test]
    fn a_container_that_has_ended_is_a_failure_only_if_it_was_requested() {
        let verified = [Verified {
            id: "c1".to_owned(),
            error: Some("the container's process has ended".to_owned()),
            ended: true,
            ..Verified::default()
        }];
        for (all, requested, effective, shown) in
            [(false, false, true, false), (true, false, true, true), (false, true, false, true)]
        {
            let report = VerifyReport::new(&verified, all, requested);
            assert_eq!(report.is_effective(), effective);
            let mut text = Vec::new();
            report.containers[0].print(&mut text).unwrap();
            let expected = "c1\n  not verified: the container's process has ended\n";
            assert_eq!(String::from_utf8(text).unwrap(), if shown { expected } else { "" });
        }
    }

    #[test]
    fn what_was_not_compared_is_not_counted_as_a_container() {
        let error = |id: &str, error: &str| Verified {
            id: id.to_owned(),
            error: Some(error.to_owned()),
            ..Verified::default()
        };
        let unknown = [error("nosuch", "no such container")];
        let summary = VerifyReport::new(&unknown, false, true).summary();
        let expected = "0 containers, 0 settings of plugins, 0 of engines, 0 differ, \
                        1 not compared";
        assert_eq!(summary, expected);
        let [first, second] = containers();
        let some = [first, error("c9", "container cgroup unknown"), second];
        let summary = VerifyReport::new(&some, false, false).summary();
        assert!(summary.starts_with("2 containers, ") && summary.ends_with(", 1 not compared"));
        // A container that ends during a comparison of all of them is no failure.
        let ended = [Verified { ended: true, ..error("c1", "has ended") }];
        let summary = VerifyReport::new(&ended, false, false).summary();
        assert_eq!(summary, "0 containers, 0 settings of plugins, 0 of engines, 0 differ");
    }

    #[test]
    fn sizes_are_for_people() {
        let mut setting = setting("memory.limit", Some("10-a"), Ok("67108864"));
        setting.wanted = "16777216".to_owned();
        let cells = SettingReport::new(&setting).cells();
        assert_eq!(cells[3], "wanted 16 MiB, found 64 MiB");
        setting.field = "pids.limit".to_owned();
        let cells = SettingReport::new(&setting).cells();
        assert_eq!(cells[3], "wanted 16777216, found \"67108864\"");
    }

    #[test]
    fn the_json_has_the_documented_names() {
        let [mut first, _] = containers();
        first.settings.drain(..2);
        let mut failed = Verified { id: "c3".to_owned(), ..Verified::default() };
        failed.error = Some("no such container".to_owned());
        let verified = [first, failed];
        let report = VerifyReport::new(&verified, false, false);
        assert_eq!(
            serde_json::to_value(&report).unwrap(),
            json!({
                "effective": false,
                "containers": [
                    {
                        "id": "c1", "name": "web", "engine": "docker", "pod": "p1",
                        "missed": [{"plugin": "20-b", "why": "it hangs"}],
                        "settings": [
                            {
                                "field": "memory.swap", "owner": "10-a",
                                "follows": "memory.limit", "wanted": "7", "found": "8",
                                "effective": false, "file": "/cgroup/file"
                            },
                            {
                                "field": "cpu.shares", "owner": null, "wanted": "7",
                                "error": "no such file", "effective": false,
                                "file": "/cgroup/file"
                            }
                        ],
                        "unsupported": ["memory.kernel"]
                    },
                    {
                        "id": "c3", "name": "", "engine": "", "pod": "", "missed": [],
                        "error": "no such container", "settings": [], "unsupported": []
                    }
                ]
            })
        );
    }
}
