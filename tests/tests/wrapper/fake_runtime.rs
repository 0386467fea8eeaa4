//! Properties of the fake runtime on which other tests rely.

use crate::harness::WrapperHarness;
use nri_tests::fake_runtime::TIMEOUT;
use serde_json::json;
use std::{fs, time::Instant};

#[test]
fn the_process_of_a_fake_container_runs_until_it_is_killed() {
    let harness = WrapperHarness::new();
    harness
        .fake
        .script(&json!({"create": {"process": true}, "kill": {"end_process": true}}))
        .unwrap();
    let run = |arguments: &[&str]| {
        assert!(harness.command_of(&harness.fake.path, arguments).status().unwrap().success())
    };
    run(&["create", "--pid-file", "pid", "id"]);
    let pid = fs::read_to_string(harness.path("pid")).unwrap();
    let is_alive = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['R', 'S']))
    };
    assert!(is_alive());
    run(&["kill", "other", "9"]);
    assert!(is_alive());
    run(&["kill", "id", "9"]);
    let deadline = Instant::now() + TIMEOUT;
    while is_alive() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
