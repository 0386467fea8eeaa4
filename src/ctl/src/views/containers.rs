//! `nrictl containers`.

use crate::{
    engine_containers::print_all,
    error::CtlError,
    nrid_location::NridLocation,
    output::output,
    table::{TableForm, TextTable},
    views::{freezer, request::DescribeClient, text},
};
use clap::Args;
use nri_control::ContainerSummary;
use nri_files::MissedPlugin;
use serde::Serialize;
use std::{
    io::{self, Write},
    time::SystemTime,
};

/// The command line of `nrictl containers`.
#[derive(Debug, Args)]
pub(crate) struct ListContainers {
    /// Show the running containers of all engines instead, and whether nri-container-runtime
    /// started them. Asks neither nrid nor an engine.
    #[arg(long, conflicts_with_all = ["all", "output"])]
    all_runtimes: bool,
    /// Show containers that have ended, too.
    #[arg(short, long)]
    all: bool,
    /// Do not shorten ids.
    #[arg(long)]
    no_trunc: bool,
    /// Show more: `wide` adds the runtime and the id of the pod, and does not shorten ids.
    #[arg(short, long, value_name = "FORM", conflicts_with = "json")]
    output: Option<TableForm>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A container in the JSON.
#[derive(Debug, Serialize)]
pub(super) struct ContainerEntry<'a> {
    id: &'a str,
    name: &'a str,
    pod: &'a str,
    pod_name: &'a str,
    engine: &'a str,
    state: &'a str,
    pid: Option<i32>,
    runtime: String,
    created: Option<String>,
    adjusted_by: &'a [String],
    missed: &'a [MissedPlugin],
}

impl<'a> From<&'a ContainerSummary> for ContainerEntry<'a> {
    fn from(container: &'a ContainerSummary) -> Self {
        Self {
            id: &container.id,
            name: &container.name,
            pod: &container.pod,
            pod_name: &container.pod_name,
            engine: &container.engine,
            state: freezer::state(container),
            pid: container.pid,
            runtime: container.runtime.0.to_string_lossy().into_owned(),
            created: text::timestamp(container.created),
            adjusted_by: &container.adjusted_by,
            missed: &container.missed,
        }
    }
}

impl ListContainers {
    /// Requests and prints the containers.
    ///
    /// # Errors
    /// `nrid` does not reply, or standard output cannot be written to.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<(), CtlError> {
        if self.all_runtimes {
            let short = |id: &str| text::short_id(id, self.no_trunc).to_owned();
            return print_all(nrid, self.json, short);
        }
        let mut containers = DescribeClient::connect(nrid)?.containers()?;
        if !self.all {
            containers.retain(|container| container.state != "stopped");
        }
        Ok(self.print(&containers, SystemTime::now(), &mut output())?)
    }

    fn print(
        &self,
        containers: &[ContainerSummary],
        now: SystemTime,
        out: &mut impl Write,
    ) -> io::Result<()> {
        if self.json {
            let entries: Vec<_> = containers.iter().map(ContainerEntry::from).collect();
            return writeln!(out, "{}", serde_json::json!({"containers": entries}));
        }
        let wide = self.output == Some(TableForm::Wide);
        let mut table = TextTable::new(0);
        let header = |wide_only: bool, name: &'static str| (wide || !wide_only).then_some(name);
        let columns = [
            header(false, "CONTAINER"),
            header(false, "NAME"),
            header(false, "POD"),
            header(true, "POD ID"),
            header(false, "ENGINE"),
            header(true, "RUNTIME"),
            header(false, "STATE"),
            header(false, "PID"),
            header(false, "AGE"),
            header(false, "PLUGINS"),
            header(false, "MISSED"),
        ];
        let is_shown = columns.map(|column| column.is_some());
        table.row(columns.into_iter().flatten());
        for container in containers {
            let cells = self.cells(container, wide, now).into_iter().zip(is_shown);
            table.row(cells.filter(|(_, is_shown)| *is_shown).map(|(cell, _)| cell));
        }
        for (column, _) in columns.into_iter().flatten().enumerate().filter(|(_, c)| *c == "PID") {
            table.align_right(column);
        }
        table.write(out)
    }

    /// Returns the cells of all columns.
    fn cells(&self, container: &ContainerSummary, wide: bool, now: SystemTime) -> [String; 11] {
        let id = |id| text::short_id(id, wide || self.no_trunc).to_owned();
        let pod = match &*container.pod_name {
            "" if container.pod == container.id => String::new(),
            "" => id(&container.pod),
            name => name.to_owned(),
        };
        [
            id(&container.id),
            text::or_dash(container.name.clone()),
            text::or_dash(pod),
            id(&container.pod),
            text::or_dash(container.engine.clone()),
            container.runtime.0.to_string_lossy().into_owned(),
            freezer::state(container).to_owned(),
            text::pid(container.pid),
            text::age(container.created, now),
            text::names(container.adjusted_by.iter().map(String::as_str)),
            text::missed(&container.missed),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_files::OsText;
    use serde_json::json;
    use std::time::{Duration, UNIX_EPOCH};

    fn containers() -> [ContainerSummary; 2] {
        let web = ContainerSummary {
            id: "15d1c2f4f6d9".to_owned() + &"a".repeat(52),
            name: "web".to_owned(),
            pod: "15d1c2f4f6d9".to_owned() + &"a".repeat(52),
            engine: "docker".to_owned(),
            state: "running".to_owned(),
            pid: Some(42),
            runtime: OsText::from("/usr/bin/runc"),
            created: 1_000_000_000,
            adjusted_by: vec!["10-a".to_owned(), "20-b".to_owned()],
            ..ContainerSummary::default()
        };
        let app = ContainerSummary {
            id: "app".to_owned(),
            pod: "p".repeat(64),
            pod_name: "shop".to_owned(),
            pid: None,
            state: "created".to_owned(),
            adjusted_by: Vec::new(),
            missed: vec![MissedPlugin { plugin: "30-c".into(), why: "it hangs".into() }],
            name: String::new(),
            engine: String::new(),
            ..web.clone()
        };
        [web, app]
    }

    fn printed(arguments: ListContainers) -> String {
        let mut out = Vec::new();
        let now = UNIX_EPOCH + Duration::from_secs(61);
        arguments.print(&containers(), now, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn arguments() -> ListContainers {
        ListContainers {
            all_runtimes: false,
            all: false,
            no_trunc: false,
            output: None,
            json: false,
        }
    }

    #[test]
    fn ids_are_short_unless_the_form_is_wide() {
        assert_eq!(
            printed(arguments()),
            "CONTAINER     NAME  POD   ENGINE  STATE    PID  AGE   PLUGINS    MISSED\n\
             15d1c2f4f6d9  web   -     docker  running   42  60 s  10-a 20-b  -\n\
             app           -     shop  -       created    -  60 s  -          30-c\n"
        );
        let wide = printed(ListContainers { output: Some(TableForm::Wide), ..arguments() });
        assert!(wide.starts_with("CONTAINER "), "{wide}");
        for part in ["RUNTIME", "/usr/bin/runc", &"p".repeat(64), &"a".repeat(52)] {
            assert!(wide.contains(part), "{part}: {wide}");
        }
        let full = printed(ListContainers { no_trunc: true, ..arguments() });
        assert!(full.contains(&"a".repeat(52)) && !full.contains("RUNTIME"), "{full}");
    }

    #[test]
    fn the_json_has_the_documented_names() {
        let text = printed(ListContainers { json: true, ..arguments() });
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value["containers"][1],
            json!({
                "id": "app", "name": "", "pod": "p".repeat(64), "pod_name": "shop",
                "engine": "", "state": "created", "pid": null, "runtime": "/usr/bin/runc",
                "created": "1970-01-01T00:00:01.000000000Z", "adjusted_by": [],
                "missed": [{"plugin": "30-c", "why": "it hangs"}]
            })
        );
    }
}
