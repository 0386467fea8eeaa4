//! Driver of engines with the container runtime interface: containerd, CRI-O. It calls a client
//! with a socket, a method and a request in JSON, as `integration/engines/cri` is one.

use super::{
    call,
    verbs::{Driver, Failure, Wanted},
};
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

/// An engine with the container runtime interface.
#[derive(Debug)]
pub struct Cri {
    /// The client, and the socket of the engine.
    pub client: Vec<String>,
    /// Image with `/bin/sleep`.
    pub image: String,
    /// Runtime handler; the default one if empty.
    pub handler: String,
    /// Parent cgroup of pods; the engine's own if empty.
    pub cgroup_parent: String,
    /// Pods by name, and containers with their pods.
    pub state: RefCell<Pods>,
}

/// Pods and containers that exist.
#[derive(Debug, Default)]
pub struct Pods {
    pods: BTreeMap<String, (String, Value)>,
    containers: BTreeMap<String, String>,
    /// Pods that several containers share; they stay until the end of the case.
    shared: BTreeSet<String>,
}

impl Cri {
    fn call(&self, method: &str, request: &Value) -> Result<Value, Failure> {
        let text = call::run(call::command(&self.client, &[method, &request.to_string()]), None)?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::Refused(format!("{method} returned no JSON: {error}")))
    }

    /// Returns id and configuration of a pod, which is run if it does not exist.
    fn pod(&self, name: &str) -> Result<(String, Value), Failure> {
        if let Some(pod) = self.state.borrow().pods.get(name) {
            return Ok(pod.clone());
        }
        let mut config = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "namespace": NAMESPACE},
            "labels": labels(name),
            "linux": {"security_context": {"namespace_options": namespaces()}},
        });
        if !self.cgroup_parent.is_empty() {
            config["linux"]["cgroup_parent"] = self.cgroup_parent.clone().into();
        }
        let request = json!({"config": config, "runtime_handler": self.handler});
        let reply = self.call("RunPodSandbox", &request)?;
        let id = reply["pod_sandbox_id"].as_str().unwrap_or_default().to_owned();
        let pod = (id, config);
        self.state.borrow_mut().pods.insert(name.to_owned(), pod.clone());
        Ok(pod)
    }

    fn remove_pod(&self, name: &str) -> Result<(), Failure> {
        let Some((id, _)) = self.state.borrow_mut().pods.remove(name) else { return Ok(()) };
        let request = json!({"pod_sandbox_id": id});
        self.call("StopPodSandbox", &request)?;
        self.call("RemovePodSandbox", &request).map(drop)
    }

    /// Returns the `info` of a container, which both engines print as JSON in a text.
    fn info(&self, id: &str) -> Result<Value, Failure> {
        let request = json!({"container_id": id, "verbose": true});
        let reply = self.call("ContainerStatus", &request)?;
        let text = reply.pointer("/info/info").and_then(Value::as_str).unwrap_or("{}");
        serde_json::from_str(text).map_err(|error| Failure::Refused(error.to_string()))
    }
}

/// Namespace of the pods.
const NAMESPACE: &str = "conformance";

/// Labels that kubelet gives pods and containers; CRI-O takes names from them.
fn labels(pod: &str) -> Value {
    json!({
        "io.kubernetes.pod.name": pod,
        "io.kubernetes.pod.namespace": NAMESPACE,
        "io.kubernetes.pod.uid": format!("uid-{pod}"),
    })
}

/// Namespaces of pods and containers: the network of the host, so that no network plugin is needed,
/// and a pid namespace per container, so that CRI-O needs no sandbox container.
fn namespaces() -> Value {
    json!({"network": 2, "pid": 1})
}

impl Driver for Cri {
    fn version(&self) -> String {
        let reply = self.call("Version", &json!({})).unwrap_or_default();
        let text = |key: &str| reply[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("runtime_name"), text("runtime_version"))
    }

    fn create(&self, wanted: &Wanted) -> Result<String, Failure> {
        let name = if wanted.pod.is_empty() { &wanted.name } else { &wanted.pod };
        if !wanted.pod.is_empty() {
            self.state.borrow_mut().shared.insert(wanted.pod.clone());
        }
        let (pod, sandbox) = self.pod(name)?;
        let env: Vec<Value> = wanted
            .env
            .iter()
            .filter_map(|variable| variable.split_once('='))
            .map(|(key, value)| json!({"key": key, "value": value}))
            .collect();
        let mut labels = labels(name);
        labels["io.kubernetes.container.name"] = wanted.name.clone().into();
        let mut config = json!({
            "metadata": {"name": wanted.name},
            "labels": labels,
            "image": {"image": self.image, "user_specified_image": self.image},
            "command": wanted.args,
            "envs": env,
            "linux": {
                "resources": {},
                "security_context": {"namespace_options": namespaces()},
            },
        });
        if let Some(memory) = wanted.memory {
            config["linux"]["resources"]["memory_limit_in_bytes"] = memory.into();
        }
        let request = json!({"pod_sandbox_id": pod, "config": config, "sandbox_config": sandbox});
        match self.call("CreateContainer", &request) {
            Ok(reply) => {
                let id = reply["container_id"].as_str().unwrap_or_default().to_owned();
                self.state.borrow_mut().containers.insert(id.clone(), name.clone());
                Ok(id)
            }
            Err(failure) => {
                if wanted.pod.is_empty() {
                    // The failure of the creation is what counts.
                    self.remove_pod(name).ok();
                }
                Err(failure)
            }
        }
    }

    fn start(&self, id: &str) -> Result<(), Failure> {
        self.call("StartContainer", &json!({"container_id": id})).map(drop)
    }

    fn pid(&self, id: &str) -> Result<u32, Failure> {
        let pid = self.info(id)?["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        pid.filter(|pid| *pid > 0)
            .ok_or_else(|| Failure::Unsupported("the status shows no process".to_owned()))
    }

    fn update(&self, id: &str, memory: i64) -> Result<(), Failure> {
        let resources = json!({"memory_limit_in_bytes": memory});
        self.call("UpdateContainerResources", &json!({"container_id": id, "linux": resources}))
            .map(drop)
    }

    fn stop(&self, id: &str) -> Result<(), Failure> {
        self.call("StopContainer", &json!({"container_id": id, "timeout": 0})).map(drop)
    }

    fn remove(&self, id: &str) -> Result<(), Failure> {
        self.call("RemoveContainer", &json!({"container_id": id}))?;
        let pod = self.state.borrow_mut().containers.remove(id);
        let Some(pod) = pod else { return Ok(()) };
        let is_shared = self.state.borrow().shared.contains(&pod);
        if is_shared { Ok(()) } else { self.remove_pod(&pod) }
    }

    fn config(&self, id: &str) -> Result<Value, Failure> {
        let config = self.info(id)?["runtimeSpec"].take();
        if config.is_null() {
            return Err(Failure::Unsupported("the status shows no OCI config".to_owned()));
        }
        Ok(config)
    }

    fn finish(&self) {
        let pods: Vec<String> = self.state.borrow().pods.keys().cloned().collect();
        for pod in pods {
            // What cannot be removed is left to the engine's own clean-up.
            self.remove_pod(&pod).ok();
        }
    }
}
