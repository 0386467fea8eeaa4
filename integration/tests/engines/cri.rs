//! Tests of containerd's container runtime interface (CRI) with the calls that the kubelet makes.

mod errors;
mod many;
mod update;

use nri_integration::{engines::*, *};
use serde_json::{Value, json};

const IMAGE: &str = "localhost/busybox:local";

/// A running pod sandbox.
pub(crate) struct Pod<'a> {
    containerd: &'a Containerd,
    config: Value,
    pub(crate) id: String,
}

impl<'a> Pod<'a> {
    /// Runs a pod of this name. CNI gives the pod's network namespace the address 10.9.8.7. In
    /// `namespace_options`, 0 is POD and 1 is CONTAINER.
    pub(crate) fn run(containerd: &'a Containerd, name: &str) -> Self {
        let config = json!({
            "metadata": {
                "name": name, "uid": format!("uid-{name}"), "namespace": "team", "attempt": 0
            },
            "hostname": name,
            "log_directory": containerd.path("logs"),
            "labels": {"tier": "front"},
            "annotations": {"example.org/pod": "of the pod"},
            "linux": {
                "cgroup_parent": format!("/{}/{name}", containerd.prefix()),
                "security_context": {"namespace_options": {"network": 0, "pid": 1, "ipc": 0}}
            }
        });
        let response = containerd.cri("RunPodSandbox", &json!({"config": config}));
        let id = response["pod_sandbox_id"].as_str().expect("the reply has an id").to_owned();
        Self { containerd, config, id }
    }

    /// Creates a container with this name, `linux.resources` and command. Returns its id.
    pub(crate) fn create(&self, name: &str, resources: &Value, command: &[&str]) -> String {
        let mut resources = resources.clone();
        // The tests may run without CAP_SYS_RESOURCE, which runc would need to set a lower value.
        resources["oom_score_adj"] = json!(1000);
        let config = json!({
            "metadata": {"name": name, "attempt": 0},
            "image": {"image": IMAGE},
            "command": command,
            "labels": {"role": name},
            "annotations": {"example.org/container": format!("of {name}")},
            "envs": [{"key": "OWN", "value": "1"}],
            "log_path": format!("{name}.log"),
            "linux": {
                "resources": resources,
                "security_context": {"namespace_options": {"network": 0, "pid": 1, "ipc": 0}}
            }
        });
        let request =
            json!({"pod_sandbox_id": self.id, "config": config, "sandbox_config": self.config});
        let response = self.containerd.cri("CreateContainer", &request);
        response["container_id"].as_str().expect("the reply has an id").to_owned()
    }

    /// Creates and starts a container. Returns its id.
    pub(crate) fn start(&self, name: &str, resources: &Value, command: &[&str]) -> String {
        let id = self.create(name, resources, command);
        self.containerd.cri("StartContainer", &json!({"container_id": id}));
        id
    }

    /// Stops and removes the pod.
    pub(crate) fn remove(self) {
        self.containerd.cri("StopPodSandbox", &json!({"pod_sandbox_id": self.id}));
        self.containerd.cri("RemovePodSandbox", &json!({"pod_sandbox_id": self.id}));
    }
}

/// Stops and removes a container.
pub(crate) fn remove(containerd: &Containerd, id: &str) {
    containerd.cri("StopContainer", &json!({"container_id": id, "timeout": 5}));
    containerd.cri("RemoveContainer", &json!({"container_id": id}));
}

/// Command of a container that exits with 3 at SIGTERM.
pub(crate) const WAIT: [&str; 3] =
    ["/bin/sh", "-c", "trap 'exit 3' TERM; while :; do sleep 0.1; done"];

/// Returns the process id of a container, as containerd reports it.
pub(crate) fn pid(containerd: &Containerd, id: &str) -> u32 {
    let status = containerd.cri("ContainerStatus", &json!({"container_id": id, "verbose": true}));
    let info = status["info"]["info"].as_str().expect("the reply has verbose information");
    let info: Value = serde_json::from_str(info).expect("the information is JSON");
    u32::try_from(info["pid"].as_u64().expect("pid is a number")).expect("pid is a process id")
}

/// Returns the expected events of a container in a pod of several containers, with the events
/// `between` start and stop. Events of the pod are not included.
pub(crate) fn member_events(between: &[&'static str]) -> Vec<&'static str> {
    [&TO_START[1..], between, &["StopContainer", "RemoveContainer"]].concat()
}

#[test]
fn events_of_a_cri_pod_with_two_containers_arrive_in_order() {
    if !Containerd::has_cri("cri pod") {
        return;
    }
    for_each_suite("cri pod", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal = containerd.launch(
            "10-adjust",
            &Program::Adjust,
            "[create]\nenv = { set = { A = 'b' } }\n",
        );
        containerd.ctl(&["start"]).success();
        let go_plugin = go_plugin("cri pod, Go plugin")
            .map(|go_plugin| containerd.connect("05-go", &go_plugin, "{}"));
        let pod = Pod::run(&containerd, "web");
        let first = pod.start("one", &json!({"memory_limit_in_bytes": 67_108_864}), &WAIT);
        let second = pod.start("two", &json!({}), &WAIT);
        let process = containerd.process(pid(&containerd, &first));
        assert_eq!(
            (process.env("A").as_deref(), process.env("OWN").as_deref()),
            (Some("b"), Some("1"))
        );
        let exec = json!({"container_id": second, "cmd": ["/bin/sh", "-c", "echo A=$A; exit 9"]});
        let executed = containerd.cri("ExecSync", &exec);
        assert_eq!(executed["exit_code"], 9);
        let pod_id = pod.id.clone();

        remove(&containerd, &first);
        journal.wait_for("RemoveContainer", &first);
        assert_eq!(journal.events(&first), member_events(&[]));
        // The removal of the pod removes the second container.
        pod.remove();
        journal.wait_for("RemovePodSandbox", &pod_id);
        assert_eq!(journal.events(&second), member_events(&[]));
        let of_pod: Vec<_> =
            journal.events(&pod_id).into_iter().filter(|e| e.contains("Pod")).collect();
        assert_eq!(of_pod, ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]);
        assert_eq!(journal.events(&pod_id).first().unwrap(), "RunPodSandbox");
        assert_eq!(containerd.status().unwrap()["containers"], 0);

        let Some(go_plugin) = go_plugin else { return };
        go_plugin.journal.wait_for("RemovePodSandbox", &pod_id);
        check_pod(&go_plugin.journal, &pod_id);
        for (id, name) in [(&first, "one"), (&second, "two")] {
            check_container(&go_plugin.journal, &pod_id, id, name);
        }
        if kernel_reports_exit_codes() {
            let stopped = &go_plugin.journal.wait_for("StopContainer", &first)["container"];
            assert_eq!(
                (&stopped["exitCode"], &stopped["statusReason"]),
                (&json!(3), &json!("Error"))
            );
        } else {
            limitation(
                "cri pod, Go plugin",
                "exit codes are not checked: the kernel reports them only since 6.15",
            );
        }
        let resources = &go_plugin.journal.wait_for("CreateContainer", &first)["container"]["linux"]
            ["resources"];
        assert_eq!(resources["memory"]["limit"]["value"], "67108864");
    });
}

/// Checks the pod in RunPodSandbox.
fn check_pod(journal: &Journal, id: &str) {
    let pod = &journal.wait_for("RunPodSandbox", id)["pod"];
    for (key, value) in [("name", "web"), ("uid", "uid-web"), ("namespace", "team")] {
        assert_eq!(pod[key], value, "{key} of {pod}");
    }
    assert_eq!(pod["labels"]["tier"], "front", "{pod}");
    assert_eq!(pod["annotations"]["example.org/pod"], "of the pod", "{pod}");
    assert_eq!(pod["ips"], json!(["10.9.8.7"]), "{pod}");
    let parent = pod["linux"]["cgroupParent"].as_str().unwrap_or_default();
    assert!(parent.ends_with("/web"), "{pod}");
    assert!(pod["pid"].as_u64().is_some_and(|pid| pid > 1), "{pod}");
}

/// Checks the container in CreateContainer and its state in StopContainer.
fn check_container(journal: &Journal, pod: &str, id: &str, name: &str) {
    let requested = journal.wait_for("CreateContainer", id);
    let container = &requested["container"];
    assert_eq!((&requested["pod"]["id"], &container["podSandboxId"]), (&json!(pod), &json!(pod)));
    assert_eq!(requested["pod"]["labels"]["tier"], "front", "{}", requested["pod"]);
    assert_eq!((&container["id"], &container["name"]), (&json!(id), &json!(name)));
    assert_eq!(container["labels"]["role"], name, "{container}");
    assert_eq!(
        container["annotations"]["example.org/container"],
        format!("of {name}"),
        "{container}"
    );
    assert!(container["env"].to_string().contains("OWN=1"), "{container}");
    let stopped = &journal.wait_for("StopContainer", id)["container"];
    assert_eq!(stopped["state"], "CONTAINER_STOPPED");
}
