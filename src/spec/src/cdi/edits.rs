//! [`CdiEdits`]: the changes that a specification defines, validated when they are parsed.

use super::error::InvalidCdiSpec;
use crate::json::edit::{put_list, put_text};
use crate::json::read::{
    Object, Read, boolean, field, field_or_default, integer, list, object, text,
};
use crate::json::wrong_type::WrongType;
use crate::oci_config::HOOK_KINDS;
use serde_json::Value;
use std::collections::HashSet;

/// The `containerEdits` of a device, or of a whole specification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CdiEdits {
    /// Environment variables, as `NAME=value`.
    pub env: Vec<String>,
    /// Device nodes.
    pub device_nodes: Vec<CdiDeviceNode>,
    /// Network devices.
    pub net_devices: Vec<CdiNetDevice>,
    /// Mounts.
    pub mounts: Vec<CdiMount>,
    /// OCI hooks.
    pub hooks: Vec<CdiHook>,
    /// An OCI `linux.intelRdt` object.
    pub intel_rdt: Option<Value>,
    /// Supplementary groups of the process.
    pub additional_gids: Vec<u32>,
}

/// A device node. Empty strings and zeros stand for the values of the host's device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CdiDeviceNode {
    /// Path in the container.
    pub path: String,
    /// Path on the host, if it differs.
    pub host_path: String,
    /// Type: `b`, `c`, `u` or `p`.
    pub kind: String,
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// Permission bits.
    pub file_mode: Option<u32>,
    /// Access in the device cgroup, some of `rwm`, or `none`.
    pub permissions: String,
    /// Id of the owner; `None` for the user of the process.
    pub uid: Option<u32>,
    /// Id of the group; `None` for the group of the process.
    pub gid: Option<u32>,
}

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CdiNetDevice {
    /// Name on the host.
    pub host_interface_name: String,
    /// Name in the container.
    pub name: String,
}

/// A mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CdiMount {
    /// Source.
    pub host_path: String,
    /// Destination.
    pub container_path: String,
    /// Options.
    pub options: Vec<String>,
    /// File system type.
    pub kind: String,
}

/// An OCI hook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CdiHook {
    /// Kind of the hook, as the OCI specification spells it.
    pub kind: String,
    /// Program.
    pub path: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment.
    pub env: Vec<String>,
    /// Timeout in seconds.
    pub timeout: Option<i64>,
}

impl CdiEdits {
    /// Reads a `containerEdits` object.
    pub fn parse(value: &Value) -> Result<Self, InvalidCdiSpec> {
        let edits = read(value)?;
        edits.check()?;
        Ok(edits)
    }

    /// Whether there are no edits, which is an error for a device.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Validates the values, whose types [`read`] has checked.
    pub(super) fn check(&self) -> Result<(), InvalidCdiSpec> {
        let check = |ok: bool, field, value: &str, why| {
            if ok {
                Ok(())
            } else {
                Err(InvalidCdiSpec::Invalid { field, value: value.to_owned(), why })
            }
        };
        let variables = self.env.iter().chain(self.hooks.iter().flat_map(|h| &h.env));
        for variable in variables {
            check(
                variable.find('=').is_some_and(|at| at > 0),
                "env",
                variable,
                "is not of the form NAME=value",
            )?;
        }
        for node in &self.device_nodes {
            check(!node.path.is_empty(), "deviceNodes", "", "has no path")?;
            check(
                ["", "b", "c", "u", "p"].contains(&node.kind.as_str()),
                "type",
                &node.kind,
                "is not a device type",
            )?;
            let permissions = node.permissions.as_str();
            let allowed = permissions == "none" || permissions.chars().all(|c| "rwm".contains(c));
            check(allowed, "permissions", permissions, "has letters other than r, w and m")?;
        }
        let (mut hosts, mut names) = (HashSet::new(), HashSet::new());
        for device in &self.net_devices {
            let host = device.host_interface_name.as_str();
            check(!host.is_empty(), "hostInterfaceName", host, "is empty")?;
            check(!device.name.is_empty(), "name", &device.name, "is empty")?;
            check(hosts.insert(host), "hostInterfaceName", host, "is not unique")?;
            check(names.insert(&device.name), "name", &device.name, "is not unique")?;
        }
        for mount in &self.mounts {
            check(!mount.host_path.is_empty(), "hostPath", &mount.host_path, "is empty")?;
            check(
                !mount.container_path.is_empty(),
                "containerPath",
                &mount.container_path,
                "is empty",
            )?;
        }
        for hook in &self.hooks {
            check(
                HOOK_KINDS.contains(&hook.kind.as_str()),
                "hookName",
                &hook.kind,
                "is not a hook type",
            )?;
            check(!hook.path.is_empty(), "path", &hook.path, "is empty")?;
        }
        let closid = self
            .intel_rdt
            .as_ref()
            .and_then(|r| r.get("closID"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        // A directory of resctrl, or `/` for the root; the bounds are those of upstream's CDI
        // package.
        let is_file_name =
            closid.len() < 4096 && closid != "." && closid != ".." && !closid.contains(['/', '\n']);
        check(closid == "/" || is_file_name, "closID", closid, "is not a control group name")
    }
}

/// Reads the fields, and checks their types but not their values.
pub(super) fn read(value: &Value) -> Read<CdiEdits> {
    let names =
        ["env", "deviceNodes", "netDevices", "mounts", "hooks", "intelRdt", "additionalGids"];
    let fields = known(value, &names)?;
    Ok(CdiEdits {
        env: field_or_default(fields, "env", list(text))?,
        device_nodes: field_or_default(fields, "deviceNodes", list(read_node))?,
        net_devices: field_or_default(fields, "netDevices", list(read_net_device))?,
        mounts: field_or_default(fields, "mounts", list(read_mount))?,
        hooks: field_or_default(fields, "hooks", list(read_hook))?,
        intel_rdt: field(fields, "intelRdt", read_rdt)?,
        additional_gids: field_or_default(fields, "additionalGids", list(integer))?,
    })
}

/// Returns the fields of an object, or an error if a field is not in `names`. A device would not
/// work if one of its fields were ignored.
pub(super) fn known<'a>(value: &'a Value, names: &[&str]) -> Read<&'a Object> {
    let fields = object(value)?;
    match fields.iter().find(|(key, _)| !names.contains(&key.as_str())) {
        None => Ok(fields),
        Some((key, value)) => Err(WrongType::new("a known field", value).within(key)),
    }
}

fn read_node(value: &Value) -> Read<CdiDeviceNode> {
    let names =
        ["path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"];
    let fields = known(value, &names)?;
    Ok(CdiDeviceNode {
        path: field_or_default(fields, "path", text)?,
        host_path: field_or_default(fields, "hostPath", text)?,
        kind: field_or_default(fields, "type", text)?,
        major: field_or_default(fields, "major", integer)?,
        minor: field_or_default(fields, "minor", integer)?,
        file_mode: field(fields, "fileMode", integer)?,
        permissions: field_or_default(fields, "permissions", text)?,
        uid: field(fields, "uid", integer)?,
        gid: field(fields, "gid", integer)?,
    })
}

fn read_net_device(value: &Value) -> Read<CdiNetDevice> {
    let fields = known(value, &["hostInterfaceName", "name"])?;
    Ok(CdiNetDevice {
        host_interface_name: field_or_default(fields, "hostInterfaceName", text)?,
        name: field_or_default(fields, "name", text)?,
    })
}

fn read_mount(value: &Value) -> Read<CdiMount> {
    let fields = known(value, &["hostPath", "containerPath", "options", "type"])?;
    Ok(CdiMount {
        host_path: field_or_default(fields, "hostPath", text)?,
        container_path: field_or_default(fields, "containerPath", text)?,
        options: field_or_default(fields, "options", list(text))?,
        kind: field_or_default(fields, "type", text)?,
    })
}

fn read_hook(value: &Value) -> Read<CdiHook> {
    let fields = known(value, &["hookName", "path", "args", "env", "timeout"])?;
    Ok(CdiHook {
        kind: field_or_default(fields, "hookName", text)?,
        path: field_or_default(fields, "path", text)?,
        args: field_or_default(fields, "args", list(text))?,
        env: field_or_default(fields, "env", list(text))?,
        timeout: field(fields, "timeout", integer)?,
    })
}

/// Reads `intelRdt` as an object of the OCI config, which has the same fields. `enableCMT` and
/// `enableMBM` belong to versions up to 1.0.0 of CDI.
fn read_rdt(value: &Value) -> Read<Value> {
    const TEXTS: [&str; 3] = ["closID", "l3CacheSchema", "memBwSchema"];
    const FLAGS: [&str; 3] = ["enableMonitoring", "enableCMT", "enableMBM"];
    let fields = known(value, &[TEXTS.as_slice(), &FLAGS, &["schemata"]].concat())?;
    let mut rdt = Object::new();
    for key in TEXTS {
        put_text(&mut rdt, key, &field_or_default(fields, key, text)?);
    }
    put_list(&mut rdt, "schemata", &field_or_default(fields, "schemata", list(text))?);
    for key in FLAGS {
        if field_or_default(fields, key, boolean)? {
            rdt.insert(key.into(), true.into());
        }
    }
    Ok(rdt.into())
}
