//! Driver of programs with runc's command line, such as our wrapper. It makes bundles, as an engine
//! does.

use super::{
    call,
    verbs::{Driver, Failure, Wanted},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The OCI config that all containers are made from.
const CONFIG: &str = include_str!("config.json");

/// A runtime with runc's command line.
#[derive(Debug)]
pub struct Oci {
    /// The runtime and its global options.
    pub client: Vec<String>,
    /// Root file system with `/bin/sleep`, which the containers share.
    pub rootfs: PathBuf,
    /// Directory of the bundles.
    pub bundles: PathBuf,
}

impl Oci {
    fn call(&self, arguments: &[&str]) -> Result<String, Failure> {
        call::run(call::command(&self.client, arguments), None)
    }

    /// Returns the state of a container as the OCI specification describes it.
    fn state(&self, id: &str) -> Result<Value, Failure> {
        let text = self.call(&["state", id])?;
        serde_json::from_str(&text).map_err(|e| Failure::Refused(format!("state: {e}: {text}")))
    }

    fn write_bundle(&self, wanted: &Wanted) -> Result<(), String> {
        let mut config: Value = serde_json::from_str(CONFIG).map_err(|e| e.to_string())?;
        config["root"]["path"] = self.rootfs.to_string_lossy().into_owned().into();
        config["process"]["args"] = wanted.args.clone().into();
        if let Some(env) = config["process"]["env"].as_array_mut() {
            env.extend(wanted.env.iter().cloned().map(Value::from));
        }
        config["linux"]["cgroupsPath"] = format!("/nri-conformance/{}", wanted.name).into();
        if let Some(memory) = wanted.memory {
            config["linux"]["resources"]["memory"] = json!({"limit": memory});
        }
        let dir = self.bundles.join(&wanted.name);
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let file = dir.join("config.json");
        fs::write(&file, config.to_string()).map_err(|e| format!("{}: {e}", file.display()))
    }
}

impl Driver for Oci {
    fn version(&self) -> String {
        self.call(&["--version"]).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
    }

    fn create(&self, wanted: &Wanted) -> Result<String, Failure> {
        self.write_bundle(wanted).map_err(Failure::Unsupported)?;
        let bundle = self.bundles.join(&wanted.name);
        self.call(&["create", "--bundle", &bundle.to_string_lossy(), &wanted.name])?;
        Ok(wanted.name.clone())
    }

    fn start(&self, id: &str) -> Result<(), Failure> {
        self.call(&["start", id]).map(drop)
    }

    fn pid(&self, id: &str) -> Result<u32, Failure> {
        let state = self.state(id)?;
        let pid = state["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        pid.filter(|pid| *pid > 0)
            .ok_or_else(|| Failure::Refused(format!("state shows no process: {state}")))
    }

    fn update(&self, id: &str, memory: i64) -> Result<(), Failure> {
        let memory = memory.to_string();
        self.call(&["update", "--memory", &memory, "--memory-swap", &memory, id]).map(drop)
    }

    /// Kills the container; `remove` waits until the runtime agrees that it has stopped.
    fn stop(&self, id: &str) -> Result<(), Failure> {
        self.call(&["kill", id, "KILL"]).map(drop)
    }

    fn remove(&self, id: &str) -> Result<(), Failure> {
        self.call(&["delete", "--force", id]).map(drop)
    }

    /// Reads the bundle that the runtime names: it may be another than the one it was given.
    fn config(&self, id: &str) -> Result<Value, Failure> {
        let state = self.state(id)?;
        let bundle = state["bundle"].as_str();
        let bundle =
            bundle.ok_or_else(|| Failure::Refused(format!("state shows no bundle: {state}")))?;
        let file = Path::new(bundle).join("config.json");
        let text = fs::read(&file)
            .map_err(|error| Failure::Refused(format!("{}: {error}", file.display())))?;
        serde_json::from_slice(&text).map_err(|error| Failure::Refused(error.to_string()))
    }

    fn finish(&self) {
        // The bundles are in a temporary directory, which the program removes at its end.
    }
}
