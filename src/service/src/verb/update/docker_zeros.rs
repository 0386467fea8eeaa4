//! Removes meaningless zeros from Docker's updates. Docker up to version 23 sends every field, with
//! 0 in the fields that the user did not give (moby, `daemon/update_linux.go`,
//! `toContainerdResources`). Newer versions omit such fields. In no version does a zero in one of
//! the fields below set a limit: to clear a limit, Docker sends -1.
//!
//! Without the removal, the zeros would replace limits of plugins by "no limit" in the record of
//! `nrid`. Zeros of other engines, and zeros in other fields of Docker, are requests and are kept.

use serde_json::{Map, Value};

/// Fields in which a zero of Docker means that the user gave no value.
const FIELDS: [(&str, &[&str]); 3] = [
    ("memory", &["limit", "reservation", "kernel"]),
    ("cpu", &["shares", "quota", "period"]),
    ("blockIO", &["weight"]),
];

/// Removes the fields that the user did not give, and groups that become empty.
pub(super) fn remove_zeros(resources: &mut Map<String, Value>) {
    for (name, fields) in FIELDS {
        let Some(group) = resources.get_mut(name).and_then(Value::as_object_mut) else { continue };
        let before = group.len();
        group.retain(|field, value| {
            !(fields.contains(&field.as_str()) && value.as_i64() == Some(0))
        });
        if group.is_empty() && before > 0 {
            resources.shift_remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(given: Value, expected: Value) {
        let Value::Object(mut map) = given.clone() else { unreachable!() };
        remove_zeros(&mut map);
        assert_eq!(Value::Object(map), expected, "{given}");
    }

    #[test]
    fn zeros_that_docker_20_10_sends_are_removed() {
        // docker update --memory 48m --memory-swap 96m --cpus 0.2
        check(
            json!({
                "memory": {"limit": 50331648, "reservation": 0, "swap": 100663296, "kernel": 0},
                "cpu": {"shares": 0, "quota": 20000, "period": 100000},
                "blockIO": {"weight": 0}
            }),
            json!({
                "memory": {"limit": 50331648, "swap": 100663296},
                "cpu": {"quota": 20000, "period": 100000}
            }),
        );
        // docker update --pids-limit -1
        check(
            json!({
                "memory": {"limit": 0, "reservation": 0, "kernel": 0},
                "cpu": {"shares": 0, "quota": 0, "period": 0},
                "pids": {"limit": -1},
                "blockIO": {"weight": 0}
            }),
            json!({"pids": {"limit": -1}}),
        );
    }

    #[test]
    fn zeros_in_other_fields_are_kept() {
        let given = json!({
            "memory": {"swap": 0, "limit": "0"},
            "cpu": {"idle": 0, "cpus": "0"},
            "pids": {"limit": 0},
            "blockIO": {},
            "unified": {}
        });
        check(given.clone(), given);
    }
}
