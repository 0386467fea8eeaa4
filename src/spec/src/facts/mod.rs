//! Facts about a container that follow from its `config.json` and the kind of its runtime: what it
//! can do, not how the file says it, and rather too much than too little where runtimes differ.

mod capabilities;
mod devices;
mod kernel_paths;
mod seccomp;

use crate::{OciConfig, capability::RuntimeKind};
use devices::DeviceAccess;
use std::collections::BTreeSet;

/// What a container can do, as its `config.json` says.
#[derive(Debug)]
pub struct ContainerFacts<'a> {
    config: &'a OciConfig,
    capabilities: BTreeSet<String>,
    devices: DeviceAccess,
}

impl<'a> ContainerFacts<'a> {
    /// Reads a `config.json`. Without the kind of its runtime, what any of them gives counts.
    pub fn of(config: &'a OciConfig, kind: Option<RuntimeKind>) -> Self {
        let capabilities = capabilities::union(config, kind);
        Self { config, capabilities, devices: DeviceAccess::of(config, kind) }
    }

    /// Lets the container have no cgroup, so that no device rule is in effect.
    #[must_use]
    pub fn without_cgroup(mut self) -> Self {
        self.devices.allow_all();
        self
    }

    /// Whether the facts depend on the kind of the runtime: the file leaves something to it.
    pub fn depend_on_runtime(config: &OciConfig) -> bool {
        let has = |path: &[&str]| config.get(path).is_some();
        !has(&["process", "capabilities"]) || !has(&["linux", "resources", "devices"])
    }

    /// Capabilities in any of the five sets, sorted, joined by commas.
    pub fn capabilities(&self) -> String {
        self.capabilities.iter().map(String::as_str).collect::<Vec<_>>().join(",")
    }

    /// The devices that the device rules allow, such as `b *:* m,c 1:3 rwm`.
    pub fn device_access(&self) -> String {
        self.devices.to_string()
    }

    /// Whether the container has CAP_SYS_ADMIN, and all devices of a kind.
    pub fn is_privileged(&self) -> bool {
        self.capabilities.contains("CAP_SYS_ADMIN") && self.devices.has_all_of_a_kind()
    }

    /// Whether a seccomp filter denies what those of engines do by default: `none`, `unfiltered` or
    /// `filtered`.
    pub fn seccomp(&self) -> &'static str {
        seccomp::state(self.config, &self.capabilities)
    }

    /// Paths of the kernel that engines hide or make read-only by default, and this container does
    /// not, sorted, joined by commas.
    pub fn unprotected_paths(&self) -> String {
        kernel_paths::unprotected(self.config).join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn device_rules_need_a_cgroup() {
        let rules = json!([{"allow": false, "access": "rwm"}]);
        let config = json!({"linux": {"resources": {"devices": rules}}});
        let config = OciConfig::from_value(config).unwrap();
        let facts = ContainerFacts::of(&config, None);
        assert_ne!(facts.device_access(), "a *:* rwm");
        assert_eq!(facts.without_cgroup().device_access(), "a *:* rwm");
    }
}
