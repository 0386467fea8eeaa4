//! Containers of an engine that the wrapper did not start: `nrictl` lists them beside its own, with
//! their runtimes, and says so where it is asked about one of them.

use crate::{
    adjusted::{IMAGE, WAIT},
    cri, ctr,
};
use nri_integration::{engines::*, *};
use serde_json::{Value, json};

/// Returns what `nrictl containers --all-runtimes` says of a container: name, engine, runtime, the
/// runtime's name, and whether the wrapper started it.
#[track_caller]
fn listed(ended: Ended, id: &str) -> [String; 5] {
    let list: Value = serde_json::from_str(&ended.success().out()).unwrap();
    assert_eq!(list["unread"], json!([]));
    // Other tests have engines as well.
    let mut containers = list["containers"].as_array().unwrap().iter();
    let container = containers.find(|container| container["id"] == id);
    let container = container.unwrap_or_else(|| panic!("no {id} in {list}"));
    ["name", "engine", "runtime", "runtime_name", "wrapper"]
        .map(|key| container[key].as_str().unwrap().to_owned())
}

/// Checks that each command about a container says how it runs. `begin` is the beginning of the
/// text, `command` what creates the container again.
#[track_caller]
/// `id` is a name that no container of another test has: nrictl finds those of all engines.
fn check_lookups(nrictl: impl Fn(&[&str]) -> Ended, id: &str, begin: &str, command: &str) {
    for subcommand in ["inspect", "explain", "stats"] {
        let ended = nrictl(&[subcommand, id]);
        let expected = format!("nrictl: {begin}, without nri-container-runtime: no plugin of nrid");
        assert!(ended.err().starts_with(&expected), "{subcommand}: {}", ended.err());
        assert!(ended.err().contains(command), "{subcommand}: {}", ended.err());
        assert_eq!(ended.code, Some(1), "{subcommand}");
    }
    let verified = nrictl(&["verify", id]);
    let expected = format!("not verified: {begin}, without nri-container-runtime");
    assert!(verified.out().contains(&expected), "{}", verified.out());
    assert_eq!(verified.code, Some(4));
}

fn check_finding(doctor: Ended, code: &str, text: &str) {
    let report: Value = serde_json::from_str(&doctor.out()).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let mut texts = findings.filter(|f| f["code"] == code).map(|f| f["text"].as_str().unwrap());
    // Other tests may have engines, and containers of this engine.
    let is_found = |shown: &str| shown.contains(text) || shown.contains(" and ");
    assert!(texts.any(is_found), "no {code} with {text} in {report:#}");
}

const LIST: [&str; 3] = ["containers", "--all-runtimes", "--json"];

#[test]
fn containers_of_docker_keep_the_runtime_that_they_were_created_with() {
    for_each_suite("containers of all runtimes, Docker", "dockerd", |suite| {
        let docker = Docker::start_in_etc(suite, "{}");
        let run = |name: &str, options: &[&str]| {
            let options = [&["--network=none"], options, &[IMAGE], &WAIT[..]].concat();
            docker.run_detached(name, &options)
        };
        let before = run("docker-before", &[]);
        let installed = docker.nrictl(&["install", "docker", "--default"]).success().out();
        assert!(installed.contains("note: existing containers, also stopped ones, keep"));
        docker.reload();
        wait_until("the default runtime", || {
            (docker.out(&["info", "--format={{.DefaultRuntime}}"]) == "nri").then_some(())
        });
        docker.nrictl(&["start"]).success();
        let (ours, chosen) = (run("ours", &[]), run("chosen", &["--runtime=runc"]));
        let list = |id: &str| listed(docker.nrictl(&LIST), id);
        assert_eq!(list(&before), ["docker-before", "docker", "runc", "runc", "no"]);
        assert_eq!(list(&chosen), ["chosen", "docker", "runc", "runc", "no"]);
        let [name, engine, runtime, runtime_name, wrapper] = list(&ours);
        assert_eq!([&*name, &engine, &runtime_name, &wrapper], ["ours", "docker", "nri", "yes"]);
        assert!(runtime.ends_with("nri-container-runtime"), "{runtime}");
        let begin = format!("docker-before ({}) runs under runc", &before[..12]);
        check_lookups(
            |arguments| docker.nrictl(arguments),
            "docker-before",
            &begin,
            "`docker run …`",
        );
        let doctor = docker.nrictl(&["doctor", "--json"]);
        check_finding(doctor, "containers-keep-runtime", "chosen (runc), docker-before (runc)");

        // A restart keeps the runtime, a new container has the default one.
        docker.out(&["restart", "--time=0", "docker-before"]);
        assert_eq!(list(&before)[4], "no");
        docker.out(&["rm", "--force", "docker-before"]);
        assert_eq!(list(&run("docker-before", &[]))[4], "yes");
    });
}

#[test]
fn containers_of_podman_keep_the_runtime_that_they_were_created_with() {
    for_each_suite("containers of all runtimes, Podman", "podman", |suite| {
        let podman = Podman::start_in_etc(suite);
        let run = |name: &str, options: &[&str]| {
            let options = [&["--network=none"], options, &[IMAGE], &WAIT[..]].concat();
            podman.run_detached(name, &options)
        };
        let before = run("podman-before", &["--runtime=runc"]);
        podman.nrictl(&["install", "podman", "--default"]).success();
        podman.nrictl(&["start"]).success();
        let ours = run("ours", &[]);
        let list = |id: &str| listed(podman.nrictl(&LIST), id);
        let [name, engine, runtime, _, wrapper] = list(&before);
        assert_eq!([&*name, &engine, &wrapper], ["podman-before", "podman", "no"]);
        assert!(runtime.ends_with("/runc"), "{runtime}");
        assert_eq!([&list(&ours)[0], &list(&ours)[4]], ["ours", "yes"]);
        let begin = format!("podman-before ({}) runs under {runtime}", &before[..12]);
        check_lookups(
            |arguments| podman.nrictl(arguments),
            "podman-before",
            &begin,
            "`podman run …`",
        );
        let doctor = podman.nrictl(&["doctor", "--json"]);
        check_finding(doctor, "containers-keep-runtime", "podman-before (");
    });
}

#[test]
fn a_container_of_ctr_has_the_runtime_of_its_call() {
    for_each_suite("containers of all runtimes, ctr", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let (ours, bare) = (containerd.id("ours"), containerd.id("bare"));
        let command = ["/bin/sleep", "1000"];
        ctr::run(&containerd, &["--detach"], &ours, &command).success();
        ctr::run_bare(&containerd, &["--detach"], &bare, &command).success();
        let list = |id: &str| listed(containerd.ctl(&LIST), id);
        let runc = containerd.runtime().path.display().to_string();
        assert_eq!(list(&bare), [&*bare, "ctr", &runc, "", "no"]);
        assert_eq!(list(&ours)[4], "yes");
        let begin = format!("{bare} runs under {runc}");
        let step = "`ctr run --runc-binary $(command -v nri-container-runtime) …`";
        check_lookups(|arguments| containerd.ctl(arguments), &bare, &begin, step);
    });
}

#[test]
fn containers_of_a_cri_pod_are_listed_with_its_name() {
    if !Containerd::has_cri("containers of all runtimes, CRI") {
        return;
    }
    for_each_suite("containers of all runtimes, CRI", "containerd", |suite| {
        let (containerd, _) =
            Containerd::start_with_nri_alone(suite, "10-adjust", &Program::Adjust, "");
        let pod = cri::Pod::run(&containerd, "shop");
        let ids = ["one", "two"].map(|name| pod.start(name, &json!({}), &cri::WAIT));
        let list: Value = serde_json::from_str(&containerd.ctl(&LIST).success().out()).unwrap();
        let listed = list["containers"].as_array().unwrap().iter();
        let of_pod =
            listed.filter(|c| c["pod_name"] == "shop" && ids.iter().any(|id| c["id"] == *id));
        let names: Vec<_> = of_pod.map(|c| [&c["name"], &c["engine"], &c["wrapper"]]).collect();
        assert_eq!(names, [["one", "containerd", "no"], ["two", "containerd", "no"]]);
        let mut listed = list["containers"].as_array().unwrap().iter();
        assert!(!listed.any(|c| c["id"] == pod.id), "the sandbox container is listed: {list}");
        let explained = containerd.ctl(&["inspect", &ids[0]]);
        assert!(explained.err().contains("delete its pod"), "{}", explained.err());
        pod.remove();
    });
}
