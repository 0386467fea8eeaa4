//! [`UnownedChanges`]: the plugins of changes for which the protocol has no owner. Entries that are
//! appended to a list cannot conflict, and a removal of an engine's entry is no claim.

use nri_api::PluginId;
use nri_api::proto::{ContainerAdjustment, Field};
use protobuf::Enum;
use std::collections::BTreeMap;

/// Plugins of changes of a container that have no owner.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnownedChanges {
    /// Plugin of each entry that was appended to a list, in the order of the entries. The keys are
    /// the names of the lists in JSON: those of the hooks, and `devices` for rules of the device
    /// cgroup.
    pub appended: BTreeMap<&'static str, Vec<PluginId>>,
    /// Last plugin that removed an entry, by the number of its field and by its key.
    pub(crate) removed: BTreeMap<(i32, String), PluginId>,
}

impl UnownedChanges {
    /// Returns the plugin that removed the entry of a field, if any did.
    pub fn remover(&self, field: Field, key: &str) -> Option<&PluginId> {
        self.removed.get(&(field.value(), key.to_owned()))
    }

    /// Records what a plugin appends.
    pub(crate) fn record(&mut self, plugin: &PluginId, adjust: &ContainerAdjustment) {
        let (hooks, linux) = (&adjust.hooks, &adjust.linux);
        for (list, count) in [
            ("prestart", hooks.prestart.len()),
            ("createRuntime", hooks.create_runtime.len()),
            ("createContainer", hooks.create_container.len()),
            ("startContainer", hooks.start_container.len()),
            ("poststart", hooks.poststart.len()),
            ("poststop", hooks.poststop.len()),
            ("devices", linux.resources.devices.len()),
        ] {
            if count > 0 {
                let plugins = self.appended.entry(list).or_default();
                plugins.extend(std::iter::repeat_n(plugin.clone(), count));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::proto::{Hook, LinuxDeviceCgroup};

    #[test]
    fn appended_entries_have_their_plugins() {
        let plugin = |index| PluginId::new(index, "p").unwrap();
        let mut adjust = ContainerAdjustment::new();
        adjust.hooks.mut_or_insert_default().poststop.push(Hook::new());
        let linux = adjust.linux.mut_or_insert_default();
        let rules = &mut linux.resources.mut_or_insert_default().devices;
        rules.extend([LinuxDeviceCgroup::new(), LinuxDeviceCgroup::new()]);
        let mut unowned = UnownedChanges::default();
        unowned.record(&plugin("10"), &adjust);
        unowned.record(&plugin("20"), &adjust);
        let plugins = |list| unowned.appended[list].iter().map(ToString::to_string).collect();
        let (hooks, rules): (Vec<_>, Vec<_>) = (plugins("poststop"), plugins("devices"));
        assert_eq!(hooks, ["10-p", "20-p"]);
        assert_eq!(rules, ["10-p", "10-p", "20-p", "20-p"]);
    }
}
