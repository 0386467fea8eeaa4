//! Facts about the host that a program in C looks up, from JSON to the types of `nri-runtime`. A
//! value of another form is no fact.

use nri_runtime::{CdiRegistry, CdiSpecFile, HostDevice, HostDeviceKind, Propagation};
use serde_json::Value;

/// `enum nri_fact` of `nri.h`.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(crate) enum Fact {
    /// Definition of a block I/O class.
    BlockIoClass = 1,
    /// Definition of an RDT class.
    RdtClass = 2,
    /// All CDI specifications.
    CdiSpecs = 3,
    /// Device node at a path.
    Device = 4,
    /// Propagation of the mount that holds a path.
    MountPropagation = 5,
}

/// Returns the devices of CDI specifications. Specifications that are not valid are skipped.
pub(crate) fn cdi_registry(specs: Value) -> Option<CdiRegistry> {
    let Value::Array(specs) = specs else { return None };
    let file = |mut spec: Value| {
        Some(CdiSpecFile {
            path: spec["path"].as_str()?.to_owned(),
            priority: usize::try_from(spec["priority"].as_u64()?).ok()?,
            content: spec.get_mut("content")?.take(),
        })
    };
    Some(CdiRegistry::new(specs.into_iter().map(file).collect::<Option<Vec<_>>>()?))
}

/// Returns a device node, in the form of `linux.devices` of an OCI config.
pub(crate) fn host_device(device: &Value) -> Option<HostDevice> {
    let kind = match device["type"].as_str()? {
        "b" => HostDeviceKind::Block,
        "c" | "u" => HostDeviceKind::Char,
        "p" => HostDeviceKind::Fifo,
        _ => return None,
    };
    let number = |key| device.get(key).map_or(Some(0), Value::as_i64);
    let mode = u32::try_from(device["fileMode"].as_u64()?).ok()?;
    Some(HostDevice { kind, major: number("major")?, minor: number("minor")?, mode })
}

/// Returns the propagation of a mount.
pub(crate) fn propagation(name: &Value) -> Option<Propagation> {
    match name.as_str()? {
        "private" => Some(Propagation::Private),
        "shared" => Some(Propagation::Shared),
        "slave" => Some(Propagation::Slave),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_of_another_form_is_no_fact() {
        let spec = json!({
            "cdiVersion": "0.6.0", "kind": "example.org/a",
            "devices": [{"name": "b", "containerEdits": {"env": ["A=b"]}}],
        });
        let names = |specs| cdi_registry(specs).map(|found| found.names().join(" "));
        let file = |priority: Value| json!([{"path": "/x", "priority": priority, "content": spec}]);
        assert_eq!(names(file(json!(0))), Some("example.org/a=b".to_owned()));
        assert_eq!(names(json!([])), Some(String::new()));
        for wrong in [file(json!(-1)), json!({}), json!([{}]), json!([1]), Value::Null] {
            assert_eq!(names(wrong.clone()), None, "{wrong}");
        }

        let fifo = HostDevice { kind: HostDeviceKind::Fifo, major: 0, minor: 0, mode: 0o600 };
        assert_eq!(host_device(&json!({"type": "p", "fileMode": 0o600})), Some(fifo));
        for wrong in [
            json!({"type": "x", "fileMode": 0o600}),
            json!({"type": "c", "major": 1, "minor": 3}),
            json!({"type": "c", "major": "1", "fileMode": 0o600}),
            json!({"type": "c", "fileMode": -1}),
            json!("c"),
        ] {
            assert_eq!(host_device(&wrong), None, "{wrong}");
        }

        assert_eq!(propagation(&json!("slave")), Some(Propagation::Slave));
        assert_eq!(propagation(&json!("rslave")), None);
        assert_eq!(propagation(&json!(1)), None);
    }
}
