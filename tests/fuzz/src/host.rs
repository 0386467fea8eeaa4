//! A host without I/O: tables of classes, devices, mounts and a CDI specification that adjustments
//! can request.

use nri_spec::cdi::{CdiRegistry, CdiSpecFile};
use nri_spec::{ApplyContext, CdiResolver, HostDevice, HostDeviceKind, Propagation};
use serde_json::{Value, json};
use std::sync::LazyLock;

static CDI: LazyLock<CdiRegistry> = LazyLock::new(|| {
    let devices = json!([
        { "path": "/dev/null" },
        { "path": "/dev/a", "type": "c", "major": 1, "minor": 9, "permissions": "none" },
    ]);
    let mount =
        json!({ "hostPath": "/lib", "containerPath": "/a", "options": ["bind"], "type": "bind" });
    let hook = json!({
        "hookName": "createContainer", "path": "/h", "args": ["h"], "env": ["H=1"], "timeout": 5,
    });
    let content = json!({
        "cdiVersion": "1.1.0", "kind": "vendor.com/gpu",
        "containerEdits": { "env": ["CDI=1", "A=cdi"], "additionalGids": [44] },
        "devices": [
            { "name": "0", "containerEdits": {
                "deviceNodes": devices,
                "mounts": [mount],
                "hooks": [hook],
            } },
            { "name": "1", "containerEdits": {
                "netDevices": [{ "hostInterfaceName": "eth0", "name": "a" }],
                "intelRdt": { "closID": "gold", "schemata": ["MB:0=50"], "enableMonitoring": true },
            } },
        ],
    });
    CdiRegistry::new([CdiSpecFile { path: "/etc/cdi/gpu.json".into(), priority: 0, content }])
});

fn blockio(class: &str) -> Option<Value> {
    match class {
        "gold" => {
            let throttle = json!({ "major": 8, "minor": 0, "rate": 5 });
            Some(json!({ "weight": 500, "throttleReadBpsDevice": [throttle] }))
        }
        "empty" => Some(json!({})),
        "broken" => Some(json!([])),
        _ => None,
    }
}

fn rdt(class: &str) -> Option<Value> {
    matches!(class, "gold" | "silver").then(|| json!({ "closID": class }))
}

/// Returns a device of the host: `/dev/null`, a disk or a pipe.
pub fn device(path: &str) -> Option<HostDevice> {
    let (kind, major, minor) = match path {
        "/dev/null" => (HostDeviceKind::Char, 1, 3),
        "/dev/sda" => (HostDeviceKind::Block, 8, 0),
        "/dev/pipe" => (HostDeviceKind::Fifo, 0, 0),
        _ => return None,
    };
    Some(HostDevice { kind, major, minor, mode: 0o660 })
}

fn propagation(path: &str) -> Option<Propagation> {
    match path.as_bytes() {
        [b'/', b's', ..] => Some(Propagation::Shared),
        [b'/', b'm', ..] => Some(Propagation::Slave),
        [b'/', ..] => Some(Propagation::Private),
        _ => None,
    }
}

/// Returns the facts about this host that an adjustment needs.
pub fn context() -> ApplyContext<'static> {
    context_with(&*CDI)
}

/// Returns the same facts with other CDI devices.
pub fn context_with<'a>(cdi: &'a dyn CdiResolver) -> ApplyContext<'a> {
    let (blockio, rdt, device) = (&blockio, &rdt, &device);
    ApplyContext { blockio, rdt, cdi, device, propagation: &propagation, swap_accounting: &|| true }
}
