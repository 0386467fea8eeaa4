//! Requests that plugins have received.

use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// A request that a plugin has received.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Method, or the event of a `StateChange`, in the form of the methods: `StartContainer`.
    pub event: String,
    /// The request in protojson.
    pub message: Value,
}

impl Entry {
    /// Id of the container that the request is about; empty if it is about a pod.
    pub fn container(&self) -> &str {
        self.text("/container/id")
    }

    /// Id of the pod that the request is about.
    pub fn pod(&self) -> &str {
        self.text("/pod/id")
    }

    fn text(&self, pointer: &str) -> &str {
        self.message.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Requests of one plugin, in the order in which they came.
#[derive(Debug, Default)]
pub struct Journal(Mutex<Vec<Entry>>);

impl Journal {
    /// Adds a request.
    pub fn add(&self, event: &str, message: Value) {
        let entry = Entry { event: event.to_owned(), message };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    /// Returns all requests so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets all requests.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
