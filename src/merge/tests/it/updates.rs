//! Tests of merged updates: per container and field, on top of the resources that the engine
//! requested, and with `ignore_failure`. Owners have the form of the protocol, with the numbers of
//! enum `Field`.

use crate::cases::{CONTAINER, message, plugin};
use nri_api::proto::{ContainerUpdate, LinuxResources, UpdateContainerResponse};
use nri_merge::{UpdateMerge, UpdateOutcome, UpdatesMerge, UpdatesOutcome};

const A: &str = "00-a";
const B: &str = "10-b";

fn updates(json: &str) -> Vec<ContainerUpdate> {
    let reply: UpdateContainerResponse = message(&format!(r#"{{"update": {json}}}"#));
    reply.update
}

fn merge(replies: &[(&str, &str)]) -> UpdatesOutcome {
    let mut merge = UpdatesMerge::new();
    for (id, json) in replies {
        merge.reply(&plugin(id), updates(json)).unwrap();
    }
    merge.finish()
}

fn update(requested: &str, replies: &[(&str, &str)]) -> UpdateOutcome {
    let mut merge = UpdateMerge::new(Default::default(), message(CONTAINER), message(requested));
    for (id, json) in replies {
        let reply = UpdateContainerResponse { update: updates(json), ..Default::default() };
        merge.reply(&plugin(id), reply).unwrap();
        let seen: LinuxResources = merge.request().linux_resources.unwrap();
        assert_eq!(
            seen,
            merge.clone().finish().resources,
            "the next request differs from the resources merged so far"
        );
    }
    merge.finish()
}

#[test]
fn updates_of_one_container_are_merged() {
    let outcome = merge(&[
        (
            A,
            r#"[{"containerId": "c2", "ignoreFailure": true,
                "linux": {"resources": {"pids": {"limit": 1}}}},
                {"containerId": "c1", "ignoreFailure": true}]"#,
        ),
        (
            B,
            r#"[{"containerId": "c1", "ignoreFailure": true,
                "linux": {"resources": {"unified": {"a": "1"}}}},
                {"containerId": "c2", "linux": {"resources": {"cpu": {"cpus": "0"}}}}]"#,
        ),
    ]);
    assert_eq!(
        outcome.updates,
        updates(
            r#"[{"containerId": "c2", "linux": {"resources": {"pids": {"limit": 1},
                "cpu": {"cpus": "0"}}}},
                {"containerId": "c1", "ignoreFailure": true,
                "linux": {"resources": {"unified": {"a": "1"}}}}]"#
        )
    );
    assert_eq!(
        outcome.owners,
        message(
            r#"{"owners": {"c1": {"compound": {"27": {"owners": {"a": "10-b"}}}},
                "c2": {"simple": {"21": "10-b", "23": "00-a"}}}}"#
        )
    );
}

#[test]
fn the_requested_resources_are_the_base_and_have_no_owner() {
    let requested = r#"{"memory": {"limit": {"value": 1}}, "pids": {"limit": 5},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 1}]}"#;
    let outcome = update(
        requested,
        &[
            (
                A,
                r#"[{"containerId": "me",
                    "linux": {"resources": {"memory": {"swap": {"value": 2}}}}},
                    {"containerId": "c1"}]"#,
            ),
            (
                B,
                r#"[{"containerId": "me", "linux": {"resources": {"pids": {"limit": 6},
                    "hugepageLimits": [{"pageSize": "2MB", "limit": 3}]}}}]"#,
            ),
        ],
    );
    let merged = r#"{"memory": {"limit": {"value": 1}, "swap": {"value": 2}},
        "pids": {"limit": 6}, "hugepageLimits": [{"pageSize": "2MB", "limit": 3}]}"#;
    assert_eq!(outcome.resources, message(merged));
    assert!(outcome.touched);
    assert_eq!(
        outcome.merged_update.unwrap(),
        message(&format!(r#"{{"containerId": "me", "linux": {{"resources": {merged}}}}}"#))
    );
    assert_eq!(outcome.updates, updates(r#"[{"containerId": "c1"}]"#));
    assert_eq!(
        outcome.owners,
        message(
            r#"{"owners": {"me": {"simple": {"10": "00-a", "23": "10-b"},
                "compound": {"24": {"owners": {"2MB": "10-b"}}}}}}"#
        )
    );
}

#[test]
fn without_updates_the_resources_are_as_requested() {
    let requested = r#"{"pids": {"limit": 5}}"#;
    let outcome = update(requested, &[(A, "[]"), (B, r#"[{"containerId": "c1"}]"#)]);
    assert_eq!((outcome.touched, outcome.merged_update), (false, None));
    assert_eq!(outcome.resources, message(requested));
    let outcome = update(requested, &[(A, r#"[{"containerId": "me", "ignoreFailure": true}]"#)]);
    assert_eq!(
        outcome.merged_update.unwrap(),
        message(r#"{"containerId": "me", "ignoreFailure": true}"#)
    );
    assert!(outcome.touched);
    assert_eq!(outcome.resources, message(requested));
}

#[test]
fn a_failed_update_with_ignore_failure_leaves_no_claims_and_no_values() {
    let outcome = merge(&[
        (A, r#"[{"containerId": "c1", "linux": {"resources": {"pids": {"limit": 1}}}}]"#),
        (
            B,
            r#"[{"containerId": "c1", "ignoreFailure": true,
                "linux": {"resources": {"cpu": {"cpus": "0"}, "pids": {"limit": 2}}}},
                {"containerId": "c2", "linux": {"resources": {"rdtClass": {"value": "x"}}}}]"#,
        ),
        ("20-c", r#"[{"containerId": "c1", "linux": {"resources": {"cpu": {"cpus": "1"}}}}]"#),
    ]);
    assert_eq!(
        outcome.updates,
        updates(
            r#"[{"containerId": "c1", "linux": {"resources": {"pids": {"limit": 1},
                "cpu": {"cpus": "1"}}}},
                {"containerId": "c2", "linux": {"resources": {"rdtClass": {"value": "x"}}}}]"#
        )
    );
    assert_eq!(
        outcome.owners,
        message(
            r#"{"owners": {"c1": {"simple": {"21": "20-c", "23": "00-a"}},
                "c2": {"simple": {"26": "10-b"}}}}"#
        )
    );
    let [failed] = outcome.failed.as_slice() else { panic!("{:?}", outcome.failed) };
    assert_eq!((failed.plugin.clone(), failed.update.container_id.as_str()), (plugin(B), "c1"));
    assert_eq!(
        failed.error.to_string(),
        "plugins \"10-b\" and \"00-a\" both tried to set pids.limit"
    );
}

#[test]
fn a_conflict_refuses_the_whole_reply() {
    let mut merge = UpdatesMerge::new();
    let pids = r#"{"containerId": "c1", "linux": {"resources": {"pids": {"limit": 1}}}}"#;
    merge.reply(&plugin(A), updates(&format!("[{pids}]"))).unwrap();
    let before = merge.clone();
    let error = merge
        .reply(
            &plugin(B),
            updates(&format!(
                r#"[{{"containerId": "c2", "linux": {{"resources": {{"rdtClass": {{}}}}}}}},
                    {pids}]"#
            )),
        )
        .unwrap_err();
    assert_eq!((error.container(), merge == before), ("c1", true));
}

#[test]
fn evictions_are_merged_to_one_per_container() {
    let mut merge = UpdatesMerge::new();
    let evict =
        |reason: &str| vec![message(&format!(r#"{{"containerId": "c", "reason": "{reason}"}}"#))];
    merge.evict(&plugin(A), evict("noisy"));
    merge.evict(&plugin(B), evict("again"));
    let outcome = merge.finish();
    assert_eq!(outcome.evictions, evict("noisy"));
    assert_eq!(outcome.consulted, [plugin(A), plugin(B)]);
}
