//! What a driver does, and the container that it creates.

use serde::Serialize;
use serde_json::Value;

/// A container to create.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Wanted {
    /// Name, unique on this machine.
    pub name: String,
    /// Pod that several containers share; a pod of its own if empty. Drivers of engines without
    /// pods ignore it.
    pub pod: String,
    /// Command line.
    pub args: Vec<String>,
    /// Variables, `NAME=value`.
    pub env: Vec<String>,
    /// Memory limit in bytes.
    pub memory: Option<i64>,
}

/// Why a call of a driver failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The engine reported this error.
    Refused(String),
    /// The engine or its driver cannot do it.
    Unsupported(String),
}

/// Runs containers of one engine. Ids are those that NRI plugins receive.
pub trait Driver {
    /// Name and version of the engine, in one line.
    fn version(&self) -> String;

    /// Creates a container, and returns its id. An engine may create it at its start only.
    fn create(&self, wanted: &Wanted) -> Result<String, Failure>;

    /// Starts a container.
    fn start(&self, id: &str) -> Result<(), Failure>;

    /// Process id of a started container.
    fn pid(&self, id: &str) -> Result<u32, Failure>;

    /// Sets the memory limit of a container.
    fn update(&self, id: &str, memory: i64) -> Result<(), Failure>;

    /// Stops a container.
    fn stop(&self, id: &str) -> Result<(), Failure>;

    /// Removes a container that is stopped, or that could not be started, and its pod after its
    /// last container.
    fn remove(&self, id: &str) -> Result<(), Failure>;

    /// Returns the OCI config of a container.
    fn config(&self, id: &str) -> Result<Value, Failure>;

    /// Removes what is left, such as pods.
    fn finish(&self) {}
}
