//! The changes that plugins made in a `config.json`, for the audit log.
//!
//! Only parts that plugins can adjust are compared. What follows from a CDI device belongs to the
//! plugin that injected the device. The hook of `nrid` is no change of a plugin.

use crate::{
    audit::ChangesByPlugin,
    resources::changes::{
        KeyedValues, add, at, change, differences, join, list_entries, map_entries, owner,
        resource_changes,
    },
};
use nri_api::{
    entry_name, field_name,
    proto::{Field, FieldOwners},
};
use nri_control::FieldChange;
use nri_merge::CreateOutcome;
use protobuf::Enum;
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};

/// Name of the rules of the device cgroup; `devices` is the name of the device nodes.
const DEVICE_RULES: &str = "resources.devices";

/// The kinds of hooks in `config.json`.
const HOOKS: [&str; 6] =
    ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

/// Form of a part of `config.json`.
#[derive(Clone, Copy)]
enum ConfigForm {
    /// One value.
    Value,
    /// An object with an owner for each key.
    Map,
    /// A list with an owner for each element, which this key identifies.
    List(&'static str),
    /// A list of `NAME=VALUE`.
    Variables,
}

/// The parts of `config.json` that plugins can adjust, except hooks and resources.
const PARTS: &[(Field, &[&str], ConfigForm)] = &[
    (Field::Annotations, &["annotations"], ConfigForm::Map),
    (Field::Args, &["process", "args"], ConfigForm::Value),
    (Field::Env, &["process", "env"], ConfigForm::Variables),
    (Field::Mounts, &["mounts"], ConfigForm::List("destination")),
    (Field::Devices, &["linux", "devices"], ConfigForm::List("path")),
    (Field::Rlimits, &["process", "rlimits"], ConfigForm::List("type")),
    (Field::OomScoreAdj, &["process", "oomScoreAdj"], ConfigForm::Value),
    (Field::IoPriority, &["process", "ioPriority"], ConfigForm::Value),
    (Field::LinuxSched, &["process", "scheduler"], ConfigForm::Value),
    (Field::CgroupsPath, &["linux", "cgroupsPath"], ConfigForm::Value),
    (Field::SeccompPolicy, &["linux", "seccomp"], ConfigForm::Value),
    (Field::Namespace, &["linux", "namespaces"], ConfigForm::List("type")),
    (Field::Sysctl, &["linux", "sysctl"], ConfigForm::Map),
    (Field::LinuxNetDevices, &["linux", "netDevices"], ConfigForm::Map),
    (Field::RdtClosID, &["linux", "intelRdt", "closID"], ConfigForm::Value),
    (Field::RdtSchemata, &["linux", "intelRdt", "schemata"], ConfigForm::Value),
    (Field::RdtEnableMonitoring, &["linux", "intelRdt", "enableMonitoring"], ConfigForm::Value),
    (Field::MemoryPolicy, &["linux", "memoryPolicy"], ConfigForm::Value),
];

/// Returns the changes from the engine's `config.json` to the adjusted one. `hook` is the program
/// of the hook that `nrid` injects.
pub(super) fn creation_changes(
    before: &Value,
    after: &Value,
    outcome: &CreateOutcome,
    hook: Option<&Path>,
) -> ChangesByPlugin {
    let none = FieldOwners::default();
    let owners = outcome.owners.owners.get(&outcome.container.id).unwrap_or(&none);
    let cdi = Cdi::of(owners);
    let mut found = ChangesByPlugin::new();
    for device in &outcome.adjust.CDI_devices {
        let plugin = owner(owners, Field::CdiDevices, Some(&device.name)).unwrap_or_default();
        let name = entry_name(field_name(Field::CdiDevices), &device.name);
        let after = Some(Value::Bool(true));
        add(&mut found, plugin, FieldChange { field: name, after, ..FieldChange::default() });
    }
    for (field, path, form) in PARTS {
        let (old, new) = (at(before, path), at(after, path));
        if old == new {
            continue;
        }
        let (pointer, name) = (format!("/{}", path.join("/")), field_name(*field));
        let mut add_entries = |old: KeyedValues<'_>, new: KeyedValues<'_>, is_list: bool| {
            for (key, old, new) in differences(old, new) {
                let path = if is_list { format!("{pointer}/-") } else { join(&pointer, &key) };
                let remover = || outcome.unowned.remover(*field, &key).map(ToString::to_string);
                let plugin = owner(owners, *field, Some(&key)).or_else(remover);
                let plugin = cdi.or_injector(plugin);
                add(&mut found, plugin, change(entry_name(name, &key), path, old, new));
            }
        };
        match form {
            ConfigForm::Value => {
                let plugin = owner(owners, *field, None).or_else(|| match field {
                    Field::RdtClosID => owner(owners, Field::RdtClass, None),
                    _ => None,
                });
                let plugin = cdi.or_injector(plugin);
                add(&mut found, plugin, change(name.to_owned(), pointer, old, new));
            }
            ConfigForm::Map => add_entries(map_entries(old), map_entries(new), false),
            ConfigForm::List(key) => {
                add_entries(list_entries(old, key), list_entries(new, key), true)
            }
            ConfigForm::Variables => {
                let (old, new) = (variables(old), variables(new));
                let entries = |all| BTreeMap::iter(all).map(|(k, v)| (String::clone(k), v));
                add_entries(entries(&old).collect(), entries(&new).collect(), true);
            }
        }
    }
    add_appended(&mut found, before, after, outcome, &cdi, hook);
    let empty = Value::Null;
    let resources = |config| at(config, &["linux", "resources"]).unwrap_or(&empty);
    for (plugin, changes) in resource_changes(resources(before), resources(after), owners) {
        found.entry(plugin).or_default().extend(changes);
    }
    found
}

/// Adds the entries that plugins appended to hooks and device rules, which have no owners.
fn add_appended(
    found: &mut ChangesByPlugin,
    before: &Value,
    after: &Value,
    outcome: &CreateOutcome,
    cdi: &Cdi,
    hook: Option<&Path>,
) {
    let plugins = |list| outcome.unowned.appended.get(list).map_or(&[][..], Vec::as_slice);
    for kind in HOOKS {
        let added = appended(before, after, &["hooks", kind]);
        let is_ours = |hook_path: Option<&Value>| {
            hook.is_some_and(|ours| hook_path.and_then(Value::as_str).map(Path::new) == Some(ours))
        };
        // The hooks of plugins come before those of CDI devices.
        let mut plugins = plugins(kind).iter();
        for entry in added.iter().filter(|entry| !is_ours(entry.get("path"))) {
            let plugin = cdi.or_injector(plugins.next().map(ToString::to_string));
            let (name, path) = (field_name(Field::OciHooks), format!("/hooks/{kind}/-"));
            add(found, plugin, change(entry_name(name, kind), path, None, Some(entry)));
        }
    }
    // The rules of devices that were added come before the rules of plugins.
    let added = appended(before, after, &["linux", "resources", "devices"]);
    let plugins = plugins("devices");
    let of_devices = added.len().saturating_sub(plugins.len());
    for (index, entry) in added.iter().enumerate() {
        let plugin = match index.checked_sub(of_devices) {
            Some(index) => plugins.get(index).map(ToString::to_string).unwrap_or_default(),
            None => device_owners(outcome, cdi),
        };
        let path = "/linux/resources/devices/-".to_owned();
        add(found, plugin, change(DEVICE_RULES.to_owned(), path, None, Some(entry)));
    }
}

/// Returns the plugins that added devices.
fn device_owners(outcome: &CreateOutcome, cdi: &Cdi) -> String {
    let owners = outcome.owners.owners.get(&outcome.container.id);
    let devices = owners.and_then(|o| o.compound.get(&Field::Devices.value()));
    let mut plugins: Vec<String> =
        devices.into_iter().flat_map(|keys| keys.owners.values().cloned()).collect();
    plugins.extend(cdi.0.clone());
    plugins.sort();
    plugins.dedup();
    plugins.join(",")
}

/// Returns the elements at the end of a list that it did not have before.
fn appended<'a>(before: &Value, after: &'a Value, path: &[&str]) -> &'a [Value] {
    let list = |value: &'a Value| at(value, path).and_then(Value::as_array);
    let old = at(before, path).and_then(Value::as_array).map_or(0, Vec::len);
    list(after).and_then(|list| list.get(old..)).unwrap_or_default()
}

/// Returns the variables of an environment; of several with one name, the last.
fn variables(list: Option<&Value>) -> BTreeMap<String, Value> {
    let entries = list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let pair = |entry: &str| {
        let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
        (name.to_owned(), Value::from(value))
    };
    entries.map(pair).collect()
}

/// The plugins that injected CDI devices, to which all changes without an owner belong.
struct Cdi(Vec<String>);

impl Cdi {
    fn of(owners: &FieldOwners) -> Self {
        let devices = owners.compound.get(&Field::CdiDevices.value());
        let mut plugins: Vec<String> =
            devices.into_iter().flat_map(|keys| keys.owners.values().cloned()).collect();
        plugins.sort();
        plugins.dedup();
        Self(plugins)
    }

    /// Returns the owner, or the plugins that injected devices.
    fn or_injector(&self, owner: Option<String>) -> String {
        owner.unwrap_or_else(|| self.0.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::PluginId;
    use nri_api::proto::{
        CDIDevice, Container, ContainerAdjustment, CreateContainerResponse, Hook, KeyValue,
    };
    use nri_merge::CreateMerge;
    use serde_json::json;

    fn plugin(index: &str, name: &str) -> PluginId {
        PluginId::new(index, name).unwrap()
    }

    fn reply(adjust: ContainerAdjustment) -> CreateContainerResponse {
        CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() }
    }

    /// Returns the outcome of two plugins: `10-a` sets a variable, removes an annotation and adds a
    /// hook, `20-b` adds a hook and injects a device.
    fn outcome() -> CreateOutcome {
        let container = Container { id: "c".into(), ..Default::default() };
        let mut merge = CreateMerge::new(Default::default(), container);
        let hook = |path: &str| Hook { path: path.into(), ..Default::default() };
        let mut first = ContainerAdjustment::new();
        let variable = KeyValue { key: "A".into(), value: "new".into(), ..Default::default() };
        first.env.push(variable);
        first.annotations.insert("-gone".into(), String::new());
        first.hooks.mut_or_insert_default().poststart.push(hook("/a"));
        merge.reply(&plugin("10", "a"), reply(first)).unwrap();
        let mut second = ContainerAdjustment::new();
        second.hooks.mut_or_insert_default().poststart.push(hook("/b"));
        second.CDI_devices.push(CDIDevice { name: "v/c=0".into(), ..Default::default() });
        merge.reply(&plugin("20", "b"), reply(second)).unwrap();
        merge.finish()
    }

    #[test]
    fn each_change_of_a_config_has_its_plugin() {
        let before = json!({
            "process": {"env": ["A=old", "B=1"]}, "annotations": {"gone": "x", "kept": "y"},
            "hooks": {"poststart": [{"path": "/engine"}]}, "mounts": [{"destination": "/m"}],
        });
        let after = json!({
            "process": {"env": ["A=new", "B=1", "CDI=1"]}, "annotations": {"kept": "y"},
            "hooks": {"poststart": [
                {"path": "/engine"}, {"path": "/a"}, {"path": "/b"}, {"path": "/cdi"},
                {"path": "/ours"},
            ]},
            "mounts": [{"destination": "/m"}, {"destination": "/n"}],
        });
        let changes = creation_changes(&before, &after, &outcome(), Some(Path::new("/ours")));
        let fields = |plugin: &str| -> Vec<String> {
            let text = |c: &FieldChange| {
                let value = |v: &Option<Value>| v.as_ref().map_or("-".into(), Value::to_string);
                format!("{} {} {}", c.field, value(&c.before), value(&c.after))
            };
            changes.get(plugin).into_iter().flatten().map(text).collect()
        };
        assert_eq!(
            fields("10-a"),
            [
                r#"annotations[gone] "x" -"#,
                r#"env[A] "old" "new""#,
                r#"hooks[poststart] - {"path":"/a"}"#,
            ]
        );
        assert_eq!(
            fields("20-b"),
            [
                "cdi_devices[v/c=0] - true",
                r#"env[CDI] - "1""#,
                r#"mounts[/n] - {"destination":"/n"}"#,
                r#"hooks[poststart] - {"path":"/b"}"#,
                r#"hooks[poststart] - {"path":"/cdi"}"#,
            ]
        );
        assert_eq!(changes.len(), 2);
    }
}
