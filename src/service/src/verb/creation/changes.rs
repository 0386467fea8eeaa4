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
    PluginId, entry_name, field_name,
    proto::{Field, FieldOwners},
};
use nri_control::FieldChange;
use nri_merge::{CreateOutcome, UnownedChanges};
use protobuf::Enum;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

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
    let is_ours = |entry: &Value| {
        let path = entry.get("path").and_then(Value::as_str).map(Path::new);
        hook.is_some_and(|ours| path == Some(ours))
    };
    changes(before, after, owners, &outcome.unowned, &is_ours)
}

/// Returns the changes of a creation from the owners that the container's record has. What has no
/// owner, such as hooks, has no plugin. `record` is the name of the record in the hook of `nrid`.
pub fn recorded_changes(
    before: &Value,
    after: &Value,
    owners: &FieldOwners,
    record: &str,
) -> ChangesByPlugin {
    let is_ours = |entry: &Value| {
        let mut arguments = entry.get("args").and_then(Value::as_array).into_iter().flatten();
        arguments.any(|argument| argument == record)
    };
    changes(before, after, owners, &UnownedChanges::default(), &is_ours)
}

fn changes(
    before: &Value,
    after: &Value,
    owners: &FieldOwners,
    unowned: &UnownedChanges,
    is_our_hook: &dyn Fn(&Value) -> bool,
) -> ChangesByPlugin {
    let cdi = Cdi::of(owners);
    let mut found = ChangesByPlugin::new();
    let injected = owners.compound.get(&Field::CdiDevices.value());
    let injected: BTreeSet<_> = injected.into_iter().flat_map(|keys| keys.owners.keys()).collect();
    for name in injected {
        let plugin = owner(owners, Field::CdiDevices, Some(name)).unwrap_or_default();
        let name = entry_name(field_name(Field::CdiDevices), name);
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
                let remover = || unowned.remover(*field, &key).map(ToString::to_string);
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
    let appended = Appended { before, after, owners, unowned, cdi: &cdi };
    appended.add_hooks(&mut found, is_our_hook);
    appended.add_device_rules(&mut found);
    let empty = Value::Null;
    let resources = |config| at(config, &["linux", "resources"]).unwrap_or(&empty);
    for (plugin, changes) in resource_changes(resources(before), resources(after), owners) {
        found.entry(plugin).or_default().extend(changes);
    }
    found
}

/// Entries that plugins appended to hooks and device rules, which have no owners.
struct Appended<'a> {
    before: &'a Value,
    after: &'a Value,
    owners: &'a FieldOwners,
    unowned: &'a UnownedChanges,
    cdi: &'a Cdi,
}

impl Appended<'_> {
    fn plugins(&self, list: &str) -> &[PluginId] {
        self.unowned.appended.get(list).map_or(&[][..], Vec::as_slice)
    }

    fn add_hooks(&self, found: &mut ChangesByPlugin, is_ours: &dyn Fn(&Value) -> bool) {
        for kind in HOOKS {
            let added = appended(self.before, self.after, &["hooks", kind]);
            // The hooks of plugins come before those of CDI devices.
            let mut plugins = self.plugins(kind).iter();
            for entry in added.iter().filter(|entry| !is_ours(entry)) {
                let plugin = self.cdi.or_injector(plugins.next().map(ToString::to_string));
                let (name, path) = (field_name(Field::OciHooks), format!("/hooks/{kind}/-"));
                add(found, plugin, change(entry_name(name, kind), path, None, Some(entry)));
            }
        }
    }

    fn add_device_rules(&self, found: &mut ChangesByPlugin) {
        // The rules of devices that were added come before the rules of plugins.
        let added = appended(self.before, self.after, &["linux", "resources", "devices"]);
        let plugins = self.plugins("devices");
        let of_devices = added.len().saturating_sub(plugins.len());
        for (index, entry) in added.iter().enumerate() {
            let plugin = match index.checked_sub(of_devices) {
                Some(index) => plugins.get(index).map(ToString::to_string).unwrap_or_default(),
                None => self.cdi.or_injector(self.owner_of_device(entry)),
            };
            let path = "/linux/resources/devices/-".to_owned();
            add(found, plugin, change(DEVICE_RULES.to_owned(), path, None, Some(entry)));
        }
    }

    /// Returns the plugin that added the device that a rule allows.
    fn owner_of_device(&self, rule: &Value) -> Option<String> {
        let devices = at(self.after, &["linux", "devices"]).and_then(Value::as_array)?;
        let number = |value: &Value| ["type", "major", "minor"].map(|key| value.get(key).cloned());
        let of_rule = devices.iter().filter(|device| number(device) == number(rule));
        let mut paths = of_rule.filter_map(|device| device.get("path")?.as_str());
        paths.find_map(|path| owner(self.owners, Field::Devices, Some(path)))
    }
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
    use nri_api::proto::{
        CDIDevice, Container, ContainerAdjustment, CreateContainerResponse, Hook, KeyValue,
        LinuxDevice,
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

    #[test]
    fn a_device_rule_belongs_to_the_plugin_that_added_the_device_or_the_rule() {
        let container = Container { id: "c".into(), ..Default::default() };
        let mut merge = CreateMerge::new(Default::default(), container);
        let device = |path: &str, minor: i64| {
            let (path, type_) = (path.to_owned(), "c".to_owned());
            let mut adjust = ContainerAdjustment::new();
            let device = LinuxDevice { path, type_, major: 1, minor, ..Default::default() };
            adjust.linux.mut_or_insert_default().devices.push(device);
            adjust
        };
        merge.reply(&plugin("10", "a"), reply(device("/dev/a", 3))).unwrap();
        merge.reply(&plugin("20", "b"), reply(device("/dev/b", 5))).unwrap();
        let mut rule = ContainerAdjustment::new();
        let resources = rule.linux.mut_or_insert_default().resources.mut_or_insert_default();
        resources.devices.push(Default::default());
        merge.reply(&plugin("30", "c"), reply(rule)).unwrap();
        let mut injected = ContainerAdjustment::new();
        injected.CDI_devices.push(CDIDevice { name: "v/c=0".into(), ..Default::default() });
        merge.reply(&plugin("40", "d"), reply(injected)).unwrap();
        let node =
            |path: &str, minor: i64| json!({"path": path, "type": "c", "major": 1, "minor": minor});
        let allow = |minor: i64| {
            json!({
                "allow": true, "type": "c", "major": 1, "minor": minor, "access": "rw"
            })
        };
        let denied = json!({"allow": false, "access": "rwm"});
        let before = json!({"linux": {"resources": {"devices": [denied]}}});
        let after = json!({"linux": {
            "devices": [node("/dev/a", 3), node("/dev/b", 5), node("/dev/cdi", 7)],
            "resources": {"devices": [denied, allow(3), allow(5), allow(7), {"allow": false}]}
        }});
        let changes = creation_changes(&before, &after, &merge.finish(), None);
        let rules = |plugin: &str| -> Vec<&Value> {
            let of = changes.get(plugin).into_iter().flatten();
            of.filter(|c| c.field == DEVICE_RULES).filter_map(|c| c.after.as_ref()).collect()
        };
        assert_eq!(rules("10-a"), [&allow(3)]);
        assert_eq!(rules("20-b"), [&allow(5)]);
        assert_eq!(rules("30-c"), [&json!({"allow": false})]);
        assert_eq!(rules("40-d"), [&allow(7)]);
        assert_eq!(changes.len(), 4, "{changes:?}");
    }
}
