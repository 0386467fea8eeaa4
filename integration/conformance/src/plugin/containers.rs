//! Names of the containers of a case, by the ids that the runtime gives them. A plugin receives the
//! id in the request to create a container, before the driver knows it, so containers are
//! recognized by a variable.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Variable with the name of the container in its case.
pub const VARIABLE: &str = "NRI_CONFORMANCE";

/// Ids and pods by container of the running case.
#[derive(Debug, Default)]
pub struct Containers {
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    id: String,
    pod: String,
}

impl Containers {
    /// Forgets all containers: the next case begins.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Adds a container that the driver has created.
    pub fn created(&self, name: &str, id: &str) {
        id.clone_into(&mut self.lock().entry(name.to_owned()).or_default().id);
    }

    /// Adds the container of a request in protojson if its environment names it.
    pub fn learn(&self, message: &Value) {
        let Some(container) = message.get("container") else { return };
        let variables = container.get("env").and_then(Value::as_array).into_iter().flatten();
        let name = variables
            .filter_map(|variable| variable.as_str()?.strip_prefix(VARIABLE)?.strip_prefix('='))
            .next_back();
        let text = |key: &str| container[key].as_str().unwrap_or_default().to_owned();
        if let Some(name) = name {
            let known = Known { id: text("id"), pod: text("podSandboxId") };
            self.lock().insert(name.to_owned(), known);
        }
    }

    /// Id of a container; its name if it does not exist.
    pub fn id(&self, name: &str) -> String {
        let known = self.lock();
        let id = known.get(name).map(|known| known.id.clone()).filter(|id| !id.is_empty());
        id.unwrap_or_else(|| name.to_owned())
    }

    /// Pod of a container, if a plugin has seen its creation.
    pub fn pod(&self, name: &str) -> Option<String> {
        self.lock().get(name).map(|known| known.pod.clone()).filter(|pod| !pod.is_empty())
    }

    /// Name of a container; none if it is not one of the case.
    pub fn name(&self, id: &str) -> Option<String> {
        let known = self.lock();
        known.iter().find(|(_, known)| known.id == id).map(|(name, _)| name.clone())
    }

    /// Replaces the names of containers in `containerId` by their ids.
    pub fn with_ids(&self, update: &Value) -> Value {
        let mut update = update.clone();
        if let Some(name) = update.get("containerId").and_then(Value::as_str) {
            update["containerId"] = self.id(name).into();
        }
        update
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
