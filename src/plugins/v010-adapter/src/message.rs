//! Messages of NRI v0.1: what a program reads on stdin and writes on stdout. The names are those of
//! upstream's `types/v1`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use std::collections::{BTreeMap, HashMap};

/// What happens to a container or pod. NRI v0.1 also has `update`, `pause` and `resume`, which no
/// event of today's NRI stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Create,
    Delete,
}

/// Request to a program.
#[derive(Debug, Serialize)]
pub(crate) struct Request<'a> {
    /// Configuration of the program, as it is in the configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conf: Option<&'a RawValue>,
    /// Version of the configuration file.
    pub(crate) version: &'a str,
    pub(crate) state: State,
    /// Id of the container; that of the pod in requests for the pod.
    pub(crate) id: &'a str,
    #[serde(rename = "sandboxID", skip_serializing_if = "str::is_empty")]
    pub(crate) sandbox_id: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) pid: u32,
    pub(crate) spec: &'a Spec,
    /// Labels of the pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<&'a str, &'a str>,
    /// Results of the programs that were called before.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) results: &'a [ProgramResult],
}

/// What the OCI runtime specification has of a container.
#[derive(Debug, Serialize)]
pub(crate) struct Spec {
    /// `linux.resources`, or null.
    pub(crate) resources: Value,
    /// Paths of the namespaces by type; empty for a new namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) namespaces: BTreeMap<String, String>,
    #[serde(rename = "cgroupsPath", skip_serializing_if = "String::is_empty")]
    pub(crate) cgroups_path: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Result of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ProgramResult {
    /// Name by which the program calls itself.
    pub(crate) plugin: String,
    pub(crate) version: String,
    /// Why the program failed; empty if it did not.
    pub(crate) error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<BTreeMap<String, String>>,
}

/// Sorts a map by its keys, so that equal requests have equal texts.
pub(crate) fn sorted(map: &HashMap<String, String>) -> BTreeMap<&str, &str> {
    map.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn is_zero(pid: &u32) -> bool {
    *pid == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requests_have_the_names_of_version_0_1() {
        let conf = RawValue::from_string(r#"{"systemReserved": [0, 1.50]}"#.to_owned()).unwrap();
        let annotations = HashMap::from([("qos.class".to_owned(), "ls".to_owned())]);
        let spec = Spec {
            resources: json!({"cpu": {"shares": 2}}),
            namespaces: BTreeMap::from([("pid".to_owned(), "/proc/44/ns/pid".to_owned())]),
            cgroups_path: "/default/redis".to_owned(),
            annotations: annotations.clone().into_iter().collect(),
        };
        let result = ProgramResult { plugin: "first".into(), ..Default::default() };
        let request = Request {
            conf: Some(&conf),
            version: "0.1",
            state: State::Create,
            id: "redis",
            sandbox_id: "pod",
            pid: 1234,
            spec: &spec,
            labels: sorted(&annotations),
            results: std::slice::from_ref(&result),
        };
        let expected = concat!(
            r#"{"conf":{"systemReserved": [0, 1.50]},"version":"0.1","state":"create","#,
            r#""id":"redis","sandboxID":"pod","pid":1234,"spec":{"resources":{"cpu":{"shares":2}},"#,
            r#""namespaces":{"pid":"/proc/44/ns/pid"},"cgroupsPath":"/default/redis","#,
            r#""annotations":{"qos.class":"ls"}},"labels":{"qos.class":"ls"},"#,
            r#""results":[{"plugin":"first","version":"","error":""}]}"#
        );
        assert_eq!(serde_json::to_string(&request).unwrap(), expected);
        let spec = Spec {
            resources: Value::Null,
            namespaces: BTreeMap::new(),
            cgroups_path: String::new(),
            annotations: BTreeMap::new(),
        };
        let request = Request {
            conf: None,
            state: State::Delete,
            sandbox_id: "",
            pid: 0,
            spec: &spec,
            labels: BTreeMap::new(),
            results: &[],
            ..request
        };
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            r#"{"version":"0.1","state":"delete","id":"redis","spec":{"resources":null}}"#
        );
    }
}
