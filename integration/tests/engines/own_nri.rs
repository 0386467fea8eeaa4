//! Tests of the wrapper under a containerd with NRI of its own: either containerd's NRI or the
//! wrapper adjusts a container, but not both.

use crate::{
    cri::{Pod, WAIT, member_events, pid, remove},
    ctr::run,
};
use nri_integration::{engines::*, *};
use serde_json::json;

/// Configuration of the plugin that containerd's NRI launches.
const THEIRS: &str = "[create]\nenv = { set = { THEIRS = '1' } }\n";
/// Configuration of the plugin that `nrid` launches.
const OURS: &str = "[create]\nenv = { set = { OURS = '1' } }\n";

/// Runs `test` with the suites whose containerd has NRI.
pub(crate) fn for_each_with_nri(name: &str, test: impl Fn(&Suite)) {
    if !Containerd::has_cri(name) {
        return;
    }
    for_each_suite(name, "containerd", |suite| {
        if suite.version("containerd") < (1, 7) {
            return limitation(name, "containerd before 1.7 has no NRI of its own");
        }
        test(suite);
    });
}

/// Reads the environment variables of a container's process. Returns whether containerd's NRI has
/// adjusted the container, and whether the wrapper has.
fn adjusted_by(containerd: &Containerd, pid: u32) -> (bool, bool) {
    let process = containerd.process(pid);
    (process.env("THEIRS").is_some(), process.env("OURS").is_some())
}

#[test]
fn the_wrapper_adjusts_no_pod_while_the_engines_own_nri_is_on() {
    for_each_with_nri("containerd's NRI on", |suite| {
        let (containerd, theirs) =
            Containerd::start_with_nri(suite, "10-adjust", &Program::Adjust, THEIRS);
        let ours = containerd.launch("10-adjust", &Program::Adjust, OURS);
        let pod = Pod::run(&containerd, "web");
        let id = pod.start("one", &json!({}), &WAIT);
        assert_eq!(adjusted_by(&containerd, pid(&containerd, &id)), (true, false));
        let request = json!({"container_id": id, "linux": {"cpu_shares": 512}});
        containerd.cri("UpdateContainerResources", &request);
        remove(&containerd, &id);
        theirs.wait_for("RemoveContainer", &id);
        assert!(theirs.events(&id).contains(&"CreateContainer".to_owned()));
        let pod_id = pod.id.clone();
        pod.remove();
        theirs.wait_for("RemovePodSandbox", &pod_id);
        assert_eq!(ours.entries_about(&pod_id), Vec::<serde_json::Value>::new());

        // containerd's NRI ignores containers that are not created through CRI, so the wrapper
        // adjusts them.
        let other = containerd.id("c");
        let script = ["/bin/sh", "-c", "test \"$THEIRS.$OURS\" = .1 && exit 7"];
        let ended = run(&containerd, &["--rm"], &other, &script);
        assert_eq!(ended.code, Some(7), "{}", ended.err());
        ours.wait_for("RemovePodSandbox", &other);
        assert_eq!(ours.events(&other), life_cycle(&[]));
        assert_eq!(theirs.entries_about(&other), Vec::<serde_json::Value>::new());
        assert_eq!(containerd.status().unwrap()["containers"], 0);
    });
}

#[test]
fn the_wrapper_adjusts_pods_after_the_engines_own_nri_was_switched_off() {
    for_each_with_nri("containerd's NRI off", |suite| {
        let (containerd, theirs) =
            Containerd::start_with_nri(suite, "10-adjust", &Program::Adjust, THEIRS);
        let ours = containerd.launch("10-adjust", &Program::Adjust, OURS);
        let pod = Pod::run(&containerd, "web");
        let before = pod.start("before", &json!({}), &WAIT);
        assert_eq!(adjusted_by(&containerd, pid(&containerd, &before)), (true, false));

        containerd.halt();
        containerd.set_nri_enabled(false);
        containerd.resume();
        let other = Pod::run(&containerd, "db");
        let after = other.start("after", &json!({}), &WAIT);
        assert_eq!(adjusted_by(&containerd, pid(&containerd, &after)), (false, true));
        remove(&containerd, &after);
        remove(&containerd, &before);
        ours.wait_for("RemoveContainer", &after);
        assert_eq!(ours.events(&after), member_events(&[]));
        pod.remove();
        let other_id = other.id.clone();
        other.remove();
        ours.wait_for("RemovePodSandbox", &other_id);
        assert_eq!(theirs.entries_about(&after), Vec::<serde_json::Value>::new());
        assert_eq!(containerd.status().unwrap()["containers"], 0);
    });
}

#[test]
fn plugins_receive_all_events_of_adjusted_containers_after_the_engines_nri_was_switched_on() {
    for_each_with_nri("containerd's NRI switched on", |suite| {
        let containerd = Containerd::start(suite);
        let ours = containerd.launch("10-adjust", &Program::Adjust, OURS);
        let pod = Pod::run(&containerd, "web");
        let before = pod.start("before", &json!({}), &WAIT);
        assert_eq!(adjusted_by(&containerd, pid(&containerd, &before)), (false, true));

        containerd.halt();
        containerd.set_nri_enabled(true);
        containerd.resume();
        let other = Pod::run(&containerd, "db");
        let after = other.start("after", &json!({}), &WAIT);
        assert_eq!(adjusted_by(&containerd, pid(&containerd, &after)), (false, false));
        remove(&containerd, &after);
        assert_eq!(ours.entries_about(&after), Vec::<serde_json::Value>::new());
        let pod_id = pod.id.clone();
        remove(&containerd, &before);
        pod.remove();
        other.remove();
        ours.wait_for("RemovePodSandbox", &pod_id);
        assert_eq!(
            ours.events(&before),
            member_events(&[]),
            "plugins must receive all events of an adjusted container"
        );
        assert_eq!(containerd.status().unwrap()["containers"], 0);
    });
}

#[test]
fn the_configuration_can_select_the_wrapper_instead_of_the_engines_own_nri() {
    for_each_with_nri("engines.containerd = ours", |suite| {
        // The plugin of containerd's NRI adjusts no container, since no container has this name.
        let (containerd, theirs) = Containerd::start_with_nri(
            suite,
            "10-adjust",
            &Program::Adjust,
            "[filter]\nname = 'unknown'\n",
        );
        containerd.configure("engines.containerd = 'ours'\n");
        let ours = containerd.launch("10-adjust", &Program::Adjust, OURS);
        let pod = Pod::run(&containerd, "web");
        let id = pod.start("one", &json!({}), &WAIT);
        assert_eq!(adjusted_by(&containerd, pid(&containerd, &id)), (false, true));
        remove(&containerd, &id);
        ours.wait_for("RemoveContainer", &id);
        assert_eq!(ours.events(&id), member_events(&[]));
        theirs.wait_for("RemoveContainer", &id);
        pod.remove();
    });
}
