//! `nrictl pods`.

use crate::{
    error::CtlError,
    nrid_location::NridLocation,
    output::output,
    table::{TableForm, TextTable},
    views::{request::DescribeClient, text},
};
use clap::Args;
use nri_control::PodSummary;
use nri_files::MissedPlugin;
use serde::Serialize;
use std::{
    io::{self, Write},
    time::SystemTime,
};

/// The command line of `nrictl pods`.
#[derive(Debug, Args)]
pub(crate) struct ListPods {
    /// Do not shorten ids.
    #[arg(long)]
    no_trunc: bool,
    /// Show more: `wide` adds the kind, the process id and the runtime, and does not shorten ids.
    #[arg(short, long, value_name = "FORM", conflicts_with = "json")]
    output: Option<TableForm>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A pod in the JSON.
#[derive(Debug, Serialize)]
pub(super) struct PodEntry<'a> {
    id: &'a str,
    name: &'a str,
    namespace: &'a str,
    engine: &'a str,
    state: &'a str,
    kind: &'a str,
    pid: Option<i32>,
    runtime: Option<String>,
    created: Option<String>,
    container_count: usize,
    adjusted_by: &'a [String],
    missed: &'a [MissedPlugin],
}

impl<'a> From<&'a PodSummary> for PodEntry<'a> {
    fn from(pod: &'a PodSummary) -> Self {
        Self {
            id: &pod.id,
            name: &pod.name,
            namespace: &pod.namespace,
            engine: &pod.engine,
            state: &pod.state,
            kind: &pod.kind,
            pid: pod.pid,
            runtime: pod.runtime.as_ref().map(|path| path.0.to_string_lossy().into_owned()),
            created: pod.created.and_then(text::timestamp),
            container_count: pod.containers,
            adjusted_by: &pod.adjusted_by,
            missed: &pod.missed,
        }
    }
}

impl ListPods {
    /// Requests and prints the pods.
    ///
    /// # Errors
    /// `nrid` does not reply, or standard output cannot be written to.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<(), CtlError> {
        let pods = DescribeClient::connect(nrid)?.pods()?;
        Ok(self.print(&pods, SystemTime::now(), &mut output())?)
    }

    fn print(&self, pods: &[PodSummary], now: SystemTime, out: &mut impl Write) -> io::Result<()> {
        if self.json {
            let entries: Vec<_> = pods.iter().map(PodEntry::from).collect();
            return writeln!(out, "{}", serde_json::json!({"pods": entries}));
        }
        let wide = self.output == Some(TableForm::Wide);
        let mut table = TextTable::new(0);
        let columns = ["POD", "NAME", "NAMESPACE", "ENGINE", "STATE", "CONTAINERS", "AGE"];
        let last = ["PLUGINS", "MISSED"];
        let more = wide.then_some(["KIND", "PID", "RUNTIME"]);
        table.row(columns.into_iter().chain(more.into_iter().flatten()).chain(last));
        table.align_right(5);
        for pod in pods {
            let cells = [
                text::short_id(&pod.id, wide || self.no_trunc).to_owned(),
                text::or_dash(pod.name.clone()),
                text::or_dash(pod.namespace.clone()),
                text::or_dash(pod.engine.clone()),
                pod.state.clone(),
                pod.containers.to_string(),
                text::age(pod.created.unwrap_or_default(), now),
            ];
            let runtime = pod.runtime.as_ref().map(|path| path.0.to_string_lossy().into_owned());
            let more = [pod.kind.clone(), text::pid(pod.pid), runtime.unwrap_or("-".to_owned())];
            let more = wide.then_some(more);
            let last = [
                text::names(pod.adjusted_by.iter().map(String::as_str)),
                text::missed(&pod.missed),
            ];
            table.row(cells.into_iter().chain(more.into_iter().flatten()).chain(last));
        }
        table.write(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_files::OsText;
    use serde_json::json;
    use std::time::{Duration, UNIX_EPOCH};

    fn printed(output: Option<TableForm>, json: bool) -> String {
        let pod = PodSummary {
            id: "15d1c2f4f6d9".to_owned() + &"a".repeat(52),
            name: "shop".to_owned(),
            namespace: "default".to_owned(),
            engine: "containerd".to_owned(),
            state: "running".to_owned(),
            kind: "sandbox".to_owned(),
            pid: Some(7),
            runtime: Some(OsText::from("/usr/bin/crun")),
            created: Some(1_000_000_000),
            containers: 2,
            adjusted_by: vec!["10-a".to_owned()],
            missed: Vec::new(),
        };
        let mut out = Vec::new();
        let now = UNIX_EPOCH + Duration::from_secs(3 * 3600);
        ListPods { no_trunc: false, output, json }.print(&[pod], now, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pod_is_a_row() {
        assert_eq!(
            printed(None, false),
            "POD           NAME  NAMESPACE  ENGINE      STATE    CONTAINERS  AGE  PLUGINS  MISSED\n\
             15d1c2f4f6d9  shop  default    containerd  running           2  2 h  10-a     -\n"
        );
        let wide = printed(Some(TableForm::Wide), false);
        for part in ["KIND", "sandbox", "/usr/bin/crun", &"a".repeat(52)] {
            assert!(wide.contains(part), "{part}: {wide}");
        }
    }

    #[test]
    fn the_json_has_the_documented_names() {
        let value: serde_json::Value = serde_json::from_str(&printed(None, true)).unwrap();
        let mut pod = value["pods"][0].clone();
        pod["id"].take();
        assert_eq!(
            pod,
            json!({
                "id": null, "name": "shop", "namespace": "default", "engine": "containerd",
                "state": "running", "kind": "sandbox", "pid": 7, "runtime": "/usr/bin/crun",
                "created": "1970-01-01T00:00:01.000000000Z", "container_count": 2,
                "adjusted_by": ["10-a"], "missed": []
            })
        );
    }
}
