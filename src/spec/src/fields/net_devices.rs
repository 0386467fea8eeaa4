//! Network devices moved to the container: `linux.netDevices`, identified by their name on the
//! host.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::fields::annotations::removed_keys;
use crate::json::edit::{put_text, remove_all_at, set_at};
use crate::json::read::{Object, Read, field_or_default, map, object, text};
use nri_api::{
    Marked,
    proto::{ContainerAdjustment, LinuxNetDevice},
};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

const PATH: [&str; 2] = ["linux", "netDevices"];

pub(crate) fn read(linux: &Object) -> Read<HashMap<String, LinuxNetDevice>> {
    field_or_default(linux, "netDevices", map(read_one))
}

fn read_one(value: &Value) -> Read<LinuxNetDevice> {
    let mut device = LinuxNetDevice::new();
    device.name = field_or_default(object(value)?, "name", text)?;
    Ok(device)
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let sorted: BTreeMap<_, _> = adjust.linux.net_devices.iter().collect();
    remove_all_at(spec, &PATH, &removed_keys(&adjust.linux.net_devices))
        .map_err(in_field("net_devices"))?;
    for (name, device) in sorted {
        if let Marked::Set(name) = Marked::parse(name) {
            set_at(spec, &PATH, name, to_oci(&device.name)).map_err(in_field("net_devices"))?;
        }
    }
    Ok(())
}

/// Returns the entry of a device; if `new_name` is empty, the device keeps its name.
pub(crate) fn to_oci(new_name: &str) -> Value {
    let mut device = Object::new();
    put_text(&mut device, "name", new_name);
    device.into()
}
