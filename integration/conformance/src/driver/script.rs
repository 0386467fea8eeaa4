//! Driver that calls an executable with a verb, so that any runtime can be tested. The README
//! describes the verbs.

use super::{
    call,
    verbs::{Driver, Failure, Wanted},
};
use serde_json::{Value, json};

/// An executable with the verbs of a driver.
#[derive(Debug)]
pub struct Script {
    /// The executable and its first arguments.
    pub client: Vec<String>,
}

impl Script {
    fn call(&self, verb: &str, id: &str, input: &Value) -> Result<String, Failure> {
        let arguments: &[&str] = if id.is_empty() { &[verb] } else { &[verb, id] };
        call::run(call::command(&self.client, arguments), Some(&input.to_string()))
    }
}

impl Driver for Script {
    fn version(&self) -> String {
        self.call("version", "", &json!({})).unwrap_or_default()
    }

    fn create(&self, wanted: &Wanted) -> Result<String, Failure> {
        let input = serde_json::to_value(wanted).unwrap_or_default();
        self.call("create", &wanted.name, &input)
    }

    fn start(&self, id: &str) -> Result<(), Failure> {
        self.call("start", id, &json!({})).map(drop)
    }

    fn pid(&self, id: &str) -> Result<u32, Failure> {
        let text = self.call("pid", id, &json!({}))?;
        text.parse().map_err(|_| Failure::Refused(format!("pid printed no number: {text}")))
    }

    fn update(&self, id: &str, memory: i64) -> Result<(), Failure> {
        self.call("update", id, &json!({"memory": memory})).map(drop)
    }

    fn stop(&self, id: &str) -> Result<(), Failure> {
        self.call("stop", id, &json!({})).map(drop)
    }

    fn remove(&self, id: &str) -> Result<(), Failure> {
        self.call("remove", id, &json!({})).map(drop)
    }

    fn config(&self, id: &str) -> Result<Value, Failure> {
        let text = self.call("config", id, &json!({}))?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::Refused(format!("config printed no JSON: {error}")))
    }
}
