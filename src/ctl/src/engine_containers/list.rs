//! `nrictl containers --all-runtimes`.

use super::{
    find::{EngineContainer, FoundContainers, TIMEOUT, Wrapper, find},
    names::or_dash,
};
use crate::{
    error::CtlError, nrid_location::NridLocation, output::output, table::TextTable, units::counted,
};
use serde_json::json;
use std::io::{self, Write};

/// Prints the running containers of all engines as a table or as JSON. `short` shortens an id.
///
/// # Errors
/// This user has no containers, but root may have some; or standard output cannot be written to.
pub(crate) fn print_all(
    nrid: &NridLocation,
    json: bool,
    short: impl Fn(&str) -> String,
) -> Result<(), CtlError> {
    let found = find(&nrid.launcher.state_dir);
    if found.containers.is_empty() && nrid.state_dir_of_root.is_some() {
        let why = "this user's engines have no running containers, and only root can see those of \
                   root's engines";
        return Err(CtlError::NeedsRoot(why.to_owned()));
    }
    for directory in &found.unread {
        let text = format!(
            "nrictl: warning: {}: not read within {TIMEOUT:?}; its containers are missing below\n",
            directory.display()
        );
        // A failed write to standard error cannot be reported anywhere.
        let _ = io::stderr().write_all(text.as_bytes());
    }
    Ok(print(&found, json, short, &mut output())?)
}

fn print(
    found: &FoundContainers,
    json: bool,
    short: impl Fn(&str) -> String,
    out: &mut impl Write,
) -> io::Result<()> {
    if json {
        let entries: Vec<_> = found.containers.iter().map(entry).collect();
        return writeln!(out, "{}", json!({"containers": entries, "unread": found.unread}));
    }
    let mut table = TextTable::new(0);
    table.row(["CONTAINER", "NAME", "POD", "ENGINE", "RUNTIME", "WRAPPER", "PID"]);
    for container in &found.containers {
        let wrapper = match container.wrapper {
            Wrapper::No => "no",
            Wrapper::PassedThrough => "passed through",
            Wrapper::Yes => "yes",
        };
        table.row([
            &*short(&container.id),
            &container.name,
            or_dash(&container.pod_name),
            &container.engine,
            &container.runtime.to_string_lossy(),
            wrapper,
            &container.pid.map_or("-".to_owned(), |pid| pid.to_string()),
        ]);
    }
    table.align_right(6);
    table.write(out)?;
    writeln!(out, "{}", summary(&found.containers))
}

fn entry(container: &EngineContainer) -> serde_json::Value {
    json!({
        "id": container.id,
        "name": container.name,
        "pod_name": container.pod_name,
        "engine": container.engine,
        "runtime": container.runtime.to_string_lossy(),
        "runtime_name": container.runtime_name,
        "pid": container.pid,
        "wrapper": container.wrapper,
    })
}

/// Returns the number of containers, and how many of them no plugin of `nrid` saw.
fn summary(containers: &[EngineContainer]) -> String {
    let count = |wrapper| containers.iter().filter(|c| c.wrapper == wrapper).count();
    let all = counted(containers.len(), "running container");
    let passed = match count(Wrapper::PassedThrough) {
        0 => String::new(),
        passed => format!(", {passed} passed through it"),
    };
    format!("{all}, {} without nri-container-runtime{passed}", count(Wrapper::No))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn container(id: &str, runtime: &str, wrapper: Wrapper) -> EngineContainer {
        EngineContainer {
            id: id.to_owned(),
            name: format!("{id}-name"),
            pod_name: String::new(),
            engine: "docker".to_owned(),
            labels: [].into(),
            runtime: PathBuf::from(runtime),
            runtime_name: "runc".to_owned(),
            pid: Some(42),
            wrapper,
        }
    }

    fn printed(json: bool) -> String {
        let containers = vec![
            container("c1", "runc", Wrapper::No),
            container("c2", "/w/nri-container-runtime", Wrapper::PassedThrough),
            EngineContainer {
                pid: None,
                pod_name: "shop".to_owned(),
                engine: "containerd".to_owned(),
                ..container("c3", "/w/nri-container-runtime", Wrapper::Yes)
            },
        ];
        let found = FoundContainers { containers, unread: vec!["/run/x".into()] };
        let mut out = Vec::new();
        print(&found, json, str::to_owned, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_says_who_started_each_container() {
        assert_eq!(
            printed(false),
            "CONTAINER  NAME     POD   ENGINE      RUNTIME                   WRAPPER         PID\n\
             c1         c1-name  -     docker      runc                      no               42\n\
             c2         c2-name  -     docker      /w/nri-container-runtime  passed through   42\n\
             c3         c3-name  shop  containerd  /w/nri-container-runtime  yes               -\n\
             3 running containers, 1 without nri-container-runtime, 1 passed through it\n"
        );
    }

    #[test]
    fn the_json_has_the_documented_names() {
        let value: serde_json::Value = serde_json::from_str(&printed(true)).unwrap();
        assert_eq!(value["unread"], json!(["/run/x"]));
        assert_eq!(
            value["containers"][1],
            json!({
                "id": "c2", "name": "c2-name", "pod_name": "", "engine": "docker",
                "runtime": "/w/nri-container-runtime", "runtime_name": "runc", "pid": 42,
                "wrapper": "passed-through"
            })
        );
    }
}
