//! The changes that plugins made in a `config.json`, for the audit log.
//!
//! Only parts that plugins can adjust are compared. What follows from a CDI device belongs to the
//! plugin that injected the device. The hook of `nrid` is no change of a plugin.

use crate::{
    audit::ChangesByPlugin,
    resources::changes::{add, owner, owner_of},
};
use nri_api::{
    Form, full_name,
    proto::{Field, FieldOwners},
};
use nri_files::FieldChange;
use nri_merge::{CreateOutcome, UnownedChanges};
use nri_spec::{ChangedField, config_changes};
use protobuf::Enum;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

/// The list of device rules, as [`UnownedChanges::appended`] names it.
const DEVICE_RULES: &str = "devices";

/// Place of the resources, which CDI devices do not edit, except for device rules.
const RESOURCES: &str = "/linux/resources/";

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
        let (field, after) = (full_name(Field::CdiDevices, Some(name)), Some(Value::Bool(true)));
        let change = FieldChange { field, after, ..FieldChange::default() };
        found.entry(plugin).or_default().push(change);
    }
    let all = config_changes(before, after);
    let rules = all.iter().filter(|change| change.row.form == Form::Appended).count();
    let mut appended = Appended { unowned, next: BTreeMap::new() };
    // The rules of devices that were added come before the rules of plugins.
    let mut of_devices = rules.saturating_sub(appended.count(DEVICE_RULES));
    let device_owners =
        if of_devices > 0 { owners_of_devices(after, owners) } else { HashMap::new() };
    for change in all {
        let entry = change.after.as_ref();
        let plugin = match change.row.form {
            Form::AppendedByKey if entry.is_some_and(is_our_hook) => continue,
            // The hooks of plugins come before those of CDI devices.
            Form::AppendedByKey => {
                cdi.or_injector(change.key.as_deref().and_then(|kind| appended.plugin(kind)))
            }
            Form::Appended if of_devices > 0 => {
                of_devices -= 1;
                cdi.or_injector(entry.and_then(|rule| device_owners.get(&numbers(rule)).cloned()))
            }
            Form::Appended => appended.plugin(DEVICE_RULES).unwrap_or_default(),
            _ if change.pointer.starts_with(RESOURCES) => {
                owner_of(owners, &change).unwrap_or_default()
            }
            _ => cdi.or_injector(owner_of(owners, &change).or_else(|| remover(unowned, &change))),
        };
        add(&mut found, plugin, change);
    }
    found
}

/// Returns the plugin that removed an entry of the engine.
fn remover(unowned: &UnownedChanges, change: &ChangedField) -> Option<String> {
    unowned.remover(change.row.owner?, change.key.as_deref()?).map(ToString::to_string)
}

/// What a device and its rule have in common: type, major and minor.
type Numbers = [Option<String>; 3];

fn numbers(entry: &Value) -> Numbers {
    ["type", "major", "minor"].map(|key| entry.get(key).map(Value::to_string))
}

/// Returns the plugins that added devices. A map, since a container may have a rule for each of
/// thousands of devices.
fn owners_of_devices(config: &Value, owners: &FieldOwners) -> HashMap<Numbers, String> {
    let mut found = HashMap::new();
    let devices = config.pointer("/linux/devices").and_then(Value::as_array);
    for device in devices.into_iter().flatten() {
        let path = device.get("path").and_then(Value::as_str);
        if let Some(plugin) = path.and_then(|path| owner(owners, Field::Devices, Some(path))) {
            found.entry(numbers(device)).or_insert(plugin);
        }
    }
    found
}

/// The plugins of entries that were appended to lists, which have no owners.
struct Appended<'a> {
    unowned: &'a UnownedChanges,
    /// Position of the next entry of each list.
    next: BTreeMap<String, usize>,
}

impl Appended<'_> {
    fn count(&self, list: &str) -> usize {
        self.unowned.appended.get(list).map_or(0, Vec::len)
    }

    /// Returns the plugin of the next entry of a list.
    fn plugin(&mut self, list: &str) -> Option<String> {
        let next = self.next.entry(list.to_owned()).or_default();
        let plugin = self.unowned.appended.get(list)?.get(*next)?;
        *next += 1;
        Some(plugin.to_string())
    }
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
    use nri_api::{
        PluginId,
        proto::{
            CDIDevice, Container, ContainerAdjustment, CreateContainerResponse, Hook, KeyValue,
            LinuxDevice,
        },
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
            "linux": {"intelRdt": {"l3CacheSchema": "L3:0=1"}},
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
                r#"rdt.l3CacheSchema - "L3:0=1""#,
                r#"hooks[poststart] - {"path":"/b"}"#,
                r#"hooks[poststart] - {"path":"/cdi"}"#,
            ]
        );
        assert_eq!(changes.len(), 2);
    }

    #[test]
    fn all_of_rdt_belongs_to_the_plugin_that_removed_it() {
        let container = Container { id: "c".into(), ..Default::default() };
        let mut merge = CreateMerge::new(Default::default(), container);
        let mut adjust = ContainerAdjustment::new();
        adjust.linux.mut_or_insert_default().rdt.mut_or_insert_default().remove = true;
        merge.reply(&plugin("10", "a"), reply(adjust)).unwrap();
        let before = json!({"linux": {"intelRdt": {"closID": "gold", "l3CacheSchema": "L3:0=1"}}});
        let changes = creation_changes(&before, &json!({}), &merge.finish(), None);
        let fields: Vec<_> = changes["10-a"].iter().map(|change| change.field.as_str()).collect();
        assert_eq!((fields, changes.len()), (vec!["rdt.closID", "rdt.l3CacheSchema"], 1));
    }

    /// 6600 devices, which an annotation of 256 KiB requests of a plugin, took nrid minutes.
    #[test]
    fn the_owners_of_thousands_of_device_rules_are_found_in_time() {
        const DEVICES: usize = 20_000;
        let mut owners = FieldOwners::default();
        let of_devices = owners.compound.entry(Field::Devices.value()).or_default();
        let (mut nodes, mut rules) = (Vec::new(), Vec::new());
        for minor in 0..DEVICES {
            let path = format!("/dev/a{minor}");
            nodes.push(json!({"path": path, "type": "c", "major": 1, "minor": minor}));
            rules.push(json!({"allow": true, "type": "c", "major": 1, "minor": minor}));
            of_devices.owners.insert(path, format!("10-{}", minor % 2));
        }
        let after = json!({"linux": {"devices": nodes, "resources": {"devices": rules}}});
        let begin = std::time::Instant::now();
        let changes = recorded_changes(&json!({}), &after, &owners, "record");
        assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
        for plugin in ["10-0", "10-1"] {
            // Half of the devices, and their rules.
            assert_eq!(changes[plugin].len(), DEVICES, "{plugin}");
        }
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
            of.filter(|c| c.field == "resources.devices").filter_map(|c| c.after.as_ref()).collect()
        };
        assert_eq!(rules("10-a"), [&allow(3)]);
        assert_eq!(rules("20-b"), [&allow(5)]);
        assert_eq!(rules("30-c"), [&json!({"allow": false})]);
        assert_eq!(rules("40-d"), [&allow(7)]);
        assert_eq!(changes.len(), 4, "{changes:?}");
    }
}
