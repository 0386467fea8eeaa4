//! Applies the edits of CDI devices to the OCI config.

use super::edits::{CdiDeviceNode, CdiEdits, CdiMount};
use super::error::CdiError;
use crate::context::{ApplyContext, HostDeviceKind};
use crate::error::{ApplyError, in_field};
use crate::fields::{devices, env, hooks, mounts, net_devices};
use crate::json::edit::{array, put_text, set_at};
use crate::json::read::Object;
use crate::resources::device_rules;
use nri_api::{HOOK_ENVIRONMENT, proto::ContainerAdjustment};
use serde_json::Value;
use std::collections::HashSet;

const GIDS: [&str; 3] = ["process", "user", "additionalGids"];

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    ctx: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    if adjust.CDI_devices.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = adjust.CDI_devices.iter().map(|d| d.name.as_str()).collect();
    let all = ctx.cdi.resolve(&names)?;
    let mut lists = Lists::default();
    for edits in &all {
        apply_edits(spec, edits, ctx, &mut lists)?;
    }
    lists.write_to(spec)
}

/// Entries that replace others in lists of the OCI config. They are collected from all edits and
/// then written in one pass per list: a pass per entry would be quadratic work.
#[derive(Default)]
struct Lists<'a> {
    env: Vec<(&'a str, String)>,
    nodes: Vec<(&'a str, Value)>,
    mounts: Vec<(&'a str, Value)>,
    gids: Vec<u32>,
}

impl Lists<'_> {
    fn write_to(self, spec: &mut Value) -> Result<(), ApplyError> {
        let field = in_field("cdi_devices");
        if !self.env.is_empty() {
            env::set_all(array(spec, &env::PATH).map_err(&field)?, self.env);
        }
        devices::replace(spec, self.nodes)?;
        mounts::replace(spec, self.mounts)?;
        if !self.gids.is_empty() {
            let gids = array(spec, &GIDS).map_err(&field)?;
            let mut known: HashSet<u64> = gids.iter().filter_map(Value::as_u64).collect();
            gids.extend(
                self.gids.into_iter().filter(|gid| known.insert((*gid).into())).map(Value::from),
            );
        }
        Ok(())
    }
}

fn apply_edits<'a>(
    spec: &mut Value,
    edits: &'a CdiEdits,
    ctx: &ApplyContext<'_>,
    lists: &mut Lists<'a>,
) -> Result<(), ApplyError> {
    let field = in_field("cdi_devices");
    // `array` creates a missing list here, so that new keys are in the order of the edits.
    for variable in &edits.env {
        array(spec, &env::PATH).map_err(&field)?;
        let name = variable.split_once('=').map_or(variable.as_str(), |(name, _)| name);
        lists.env.push((name, variable.clone()));
    }
    for node in &edits.device_nodes {
        lists.nodes.push((&node.path, apply_node(spec, node, ctx)?));
    }
    for device in &edits.net_devices {
        let value = net_devices::to_oci(&device.name);
        set_at(spec, &["linux", "netDevices"], &device.host_interface_name, value)
            .map_err(&field)?;
    }
    let is_mapped = !edits.mounts.is_empty() && has_user_namespace(spec);
    for mount in &edits.mounts {
        array(spec, &mounts::PATH).map_err(in_field("mounts"))?;
        let mut options = mount.options.clone();
        options.extend(is_mapped.then(|| id_mapping(mount)).flatten().map(str::to_owned));
        let value = mounts::to_oci(&mount.container_path, &mount.kind, &mount.host_path, &options);
        lists.mounts.push((&mount.container_path, value));
    }
    for hook in &edits.hooks {
        let minimal = [HOOK_ENVIRONMENT.to_owned()];
        let env = if hook.env.is_empty() { &minimal[..] } else { &hook.env };
        let value = hooks::to_oci(&hook.path, &hook.args, env, hook.timeout);
        array(spec, &["hooks", &hook.kind]).map_err(&field)?.push(value);
    }
    if let Some(rdt) = &edits.intel_rdt {
        set_at(spec, &["linux"], "intelRdt", rdt.clone()).map_err(&field)?;
    }
    for &gid in edits.additional_gids.iter().filter(|gid| **gid != 0) {
        array(spec, &GIDS).map_err(&field)?;
        lists.gids.push(gid);
    }
    Ok(())
}

/// Returns the entry of a device node, and adds its device rule. If the edit omits the type, the
/// numbers or the mode, the entry gets those of the host's device; if the edit omits the user or
/// the group, the entry gets those of the process.
fn apply_node(
    spec: &mut Value,
    node: &CdiDeviceNode,
    ctx: &ApplyContext<'_>,
) -> Result<Value, ApplyError> {
    let host_path = if node.host_path.is_empty() { &node.path } else { &node.host_path };
    let host = (ctx.device)(host_path);
    let is_specified = !node.kind.is_empty() && (node.major != 0 || node.kind == "p");
    let (mut kind, mut major, mut minor) = (node.kind.as_str(), node.major, node.minor);
    if !is_specified {
        let host = host.ok_or_else(|| CdiError::UnknownDevice { path: host_path.clone() })?;
        let found = match host.kind {
            HostDeviceKind::Block => "b",
            HostDeviceKind::Char => "c",
            HostDeviceKind::Fifo => "p",
        };
        if kind.is_empty() {
            kind = found;
        } else if kind != found && !(kind == "u" && found == "c") {
            let (path, wanted) = (host_path.clone(), kind.to_owned());
            return Err(CdiError::DeviceKind { path, wanted, found }.into());
        }
        if kind != "p" && major == 0 {
            (major, minor) = (host.major, host.minor);
        }
    }
    let mut entry = Object::new();
    entry.insert("path".into(), node.path.as_str().into());
    put_text(&mut entry, "type", kind);
    entry.insert("major".into(), major.into());
    entry.insert("minor".into(), minor.into());
    let user =
        |key: &str| spec.get("process")?.get("user")?.get(key)?.as_u64().filter(|id| *id != 0);
    for (key, value) in [
        ("fileMode", node.file_mode.or(host.map(|h| h.mode)).map(u64::from)),
        ("uid", node.uid.map(u64::from).or_else(|| user("uid"))),
        ("gid", node.gid.map(u64::from).or_else(|| user("gid"))),
    ] {
        if let Some(value) = value {
            entry.insert(key.into(), value.into());
        }
    }
    array(spec, &devices::NODES).map_err(in_field("devices"))?;
    if matches!(kind, "b" | "c") {
        let access = match node.permissions.as_str() {
            "" => "rwm",
            "none" => "",
            given => given,
        };
        device_rules::add(
            spec,
            device_rules::to_oci(true, kind, Some(major), Some(minor), access),
        )?;
    }
    Ok(entry.into())
}

fn has_user_namespace(spec: &Value) -> bool {
    let namespaces = spec.get("linux").and_then(|l| l.get("namespaces")).and_then(Value::as_array);
    namespaces.into_iter().flatten().any(|n| n.get("type").and_then(Value::as_str) == Some("user"))
}

/// Returns the option that maps the ids of a bind mount in a user namespace. Without a mapping, the
/// files of the mount would belong to the overflow user.
fn id_mapping(mount: &CdiMount) -> Option<&'static str> {
    let mut option = (mount.kind == "bind").then_some("idmap");
    for given in &mount.options {
        match given.as_str() {
            "idmap" | "ridmap" => return None,
            "bind" => option = Some("idmap"),
            "rbind" => option = Some("ridmap"),
            _ => {}
        }
    }
    option
}
