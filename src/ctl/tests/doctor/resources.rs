//! Findings about the resources of containers.

use crate::{
    fake_nrid::{FakeNrid, healthy},
    site::{Findings, Site},
};
use nri_control::{Status, Verified, VerifiedResource};

fn setting(owner: Option<&str>, found: Result<&str, &str>) -> VerifiedResource {
    VerifiedResource {
        field: "pids.limit".to_owned(),
        file: "/cgroup/pids.max".into(),
        wanted: "7".to_owned(),
        found: found.map(str::to_owned).map_err(str::to_owned),
        effective: found == Ok("7"),
        owner: owner.map(str::to_owned),
        follows: None,
    }
}

fn container(id: &str, settings: Vec<VerifiedResource>) -> Verified {
    Verified { id: id.to_owned(), name: "web".to_owned(), settings, ..Verified::default() }
}

fn doctor(verified: Vec<Verified>) -> Findings {
    let site = Site::new("");
    let status = Status { containers: verified.len(), ..healthy(&site) };
    FakeNrid::start_with(&site, status, verified);
    site.doctor()
}

#[test]
fn a_cgroup_with_another_value_than_a_plugin_set_is_a_problem() {
    let effective = container("c1", vec![setting(Some("10-a"), Ok("7"))]);
    let findings = doctor(vec![effective.clone()]);
    findings.check("resources-effective", "ok", "1 container: cgroups have the values");
    let differs = |id: &str| container(id, vec![setting(Some("10-a"), Ok("max"))]);
    let findings = doctor(vec![effective, differs("c2")]);
    findings.check(
        "resources-differ",
        "problem",
        "web (c2): pids.limit of 10-a should be 7, the cgroup has \"max\"",
    );
    assert!(findings.texts("resources-effective").is_empty());
    let findings = doctor((0..15).map(|i| differs(&format!("c{i}"))).collect());
    assert_eq!(findings.texts("resources-differ").len(), 11);
    findings.check("resources-differ", "problem", "5 more containers: `nrictl verify`");
}

#[test]
fn what_differs_from_an_engines_value_or_cannot_be_compared_is_no_problem() {
    let of_engine = container("c1", vec![setting(None, Err("no such file"))]);
    let error = |id: &str| Verified {
        error: Some("container cgroup unknown".to_owned()),
        ..container(id, Vec::new())
    };
    let findings = doctor(vec![of_engine, error("c2"), Verified { ended: true, ..error("c3") }]);
    findings.check("resources-of-engine", "info", "1 container: a cgroup has another value");
    let unknown = findings.texts("resources-unknown");
    assert_eq!(unknown, ["web (c2): not compared: container cgroup unknown"]);
    findings.check("resources-unknown", "warning", "web (c2)");
}
