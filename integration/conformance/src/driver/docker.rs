//! Driver of engines with Docker's command line: Docker, Podman, nerdctl.

use super::{
    call,
    verbs::{Driver, Failure, Wanted},
};
use serde_json::Value;

/// An engine with Docker's command line.
#[derive(Debug)]
pub struct Docker {
    /// The client and its global options.
    pub client: Vec<String>,
    /// Image with `/bin/sleep`.
    pub image: String,
    /// Options of `create`, such as the runtime.
    pub options: Vec<String>,
}

impl Docker {
    fn call(&self, arguments: &[&str]) -> Result<String, Failure> {
        call::run(call::command(&self.client, arguments), None)
    }

    fn inspect(&self, id: &str) -> Result<Value, Failure> {
        let text = self.call(&["inspect", id])?;
        let all: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::Refused(format!("inspect prints no JSON: {error}")))?;
        Ok(all.get(0).cloned().unwrap_or_default())
    }
}

impl Driver for Docker {
    fn version(&self) -> String {
        self.call(&["--version"]).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
    }

    fn create(&self, wanted: &Wanted) -> Result<String, Failure> {
        let mut arguments = vec!["create", "--name", &wanted.name, "--network=none"];
        arguments.extend(self.options.iter().map(String::as_str));
        for variable in &wanted.env {
            arguments.extend(["--env", variable]);
        }
        let memory = wanted.memory.map(|bytes| bytes.to_string());
        if let Some(memory) = &memory {
            arguments.extend(["--memory", memory]);
        }
        arguments.push(&self.image);
        arguments.extend(wanted.args.iter().map(String::as_str));
        let out = self.call(&arguments)?;
        Ok(out.lines().last().unwrap_or_default().to_owned())
    }

    fn start(&self, id: &str) -> Result<(), Failure> {
        self.call(&["start", id]).map(drop)
    }

    fn pid(&self, id: &str) -> Result<u32, Failure> {
        let pid = self.inspect(id)?.pointer("/State/Pid").and_then(Value::as_u64).unwrap_or(0);
        u32::try_from(pid)
            .ok()
            .filter(|pid| *pid > 0)
            .ok_or_else(|| Failure::Refused("inspect shows no process".to_owned()))
    }

    /// Sets the limit of memory and swap to the same value: Docker refuses a limit above that of
    /// memory and swap.
    fn update(&self, id: &str, memory: i64) -> Result<(), Failure> {
        let memory = memory.to_string();
        self.call(&["update", "--memory", &memory, "--memory-swap", &memory, id]).map(drop)
    }

    fn stop(&self, id: &str) -> Result<(), Failure> {
        self.call(&["stop", "-t", "0", id]).map(drop)
    }

    fn remove(&self, id: &str) -> Result<(), Failure> {
        self.call(&["rm", "-f", id]).map(drop)
    }

    /// Returns the file that Podman names; Docker names none.
    fn config(&self, id: &str) -> Result<Value, Failure> {
        let absent = || Failure::Unsupported("the engine does not tell its config.json".to_owned());
        let inspected = self.inspect(id)?;
        let path = inspected.pointer("/OCIConfigPath").and_then(Value::as_str);
        let text = std::fs::read(path.ok_or_else(absent)?).map_err(|_| absent())?;
        serde_json::from_slice(&text).map_err(|error| Failure::Refused(error.to_string()))
    }
}
