//! The container in messages to plugins after its adjustment. The merge yields the fields that
//! plugins requested; the adjusted `config.json` also has their consequences (edits of CDI devices,
//! a swap limit that follows a memory limit).

use crate::container::{ContainerInfo, to_container};
use crate::json::wrong_type::WrongType;
use crate::oci_config::OciConfig;
use nri_api::proto::{CDIDevice, Container};

/// Returns the merged container with the fields of the adjusted `config.json` and the injected CDI
/// devices. An empty name of a block I/O or RDT class means no class.
///
/// # Errors
/// A field of `config.json` has a wrong type.
pub fn agreed_container(
    merged: &Container,
    devices: &[CDIDevice],
    config: &OciConfig,
) -> Result<Container, WrongType> {
    let linux = merged.linux.get_or_default();
    let non_empty = |class: Option<&nri_api::proto::OptionalString>| {
        class.map(|c| c.value.clone()).filter(|name| !name.is_empty())
    };
    let info = ContainerInfo {
        blockio_class: non_empty(linux.resources.blockio_class.as_ref()),
        rdt_class: non_empty(linux.resources.rdt_class.as_ref()),
        seccomp_profile: linux.seccomp_profile.clone().into_option(),
        ..ContainerInfo::default()
    };
    let adjusted = to_container(config, &info)?;
    let mut container = merged.clone();
    container.args = adjusted.args;
    container.env = adjusted.env;
    container.mounts = adjusted.mounts;
    container.hooks = adjusted.hooks;
    container.rlimits = adjusted.rlimits;
    container.user = adjusted.user;
    container.linux = adjusted.linux;
    container.CDI_devices.extend_from_slice(devices);
    Ok(container)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_container_message_has_the_fields_of_the_adjusted_config() {
        let mut merged = Container::new();
        merged.id = "c".to_owned();
        merged.env = vec!["A=1".to_owned()];
        merged.annotations.insert("k".to_owned(), "v".to_owned());
        let resources = merged.linux.mut_or_insert_default().resources.mut_or_insert_default();
        resources.blockio_class = nri_api::opt(Some("slow".to_owned()));
        resources.rdt_class = nri_api::opt(Some(String::new()));
        let config = json!({"ociVersion": "1.0.2", "process": {"env": ["A=1", "B=cdi"]},
            "linux": {"resources": {"memory": {"limit": 7, "swap": 7}}}});
        let device = CDIDevice { name: "example.org/thing=all".to_owned(), ..CDIDevice::default() };
        let config = OciConfig::from_value(config).unwrap();
        let container = agreed_container(&merged, std::slice::from_ref(&device), &config).unwrap();
        assert_eq!((container.id.as_str(), &container.annotations["k"]), ("c", &"v".to_owned()));
        assert_eq!(container.env, ["A=1", "B=cdi"]);
        assert_eq!(container.CDI_devices, [device]);
        let resources = &container.linux.resources;
        assert_eq!(resources.memory.swap.as_ref().map(|s| s.value), Some(7));
        assert_eq!(resources.blockio_class.as_ref().map(|c| c.value.as_str()), Some("slow"));
        assert!(resources.rdt_class.is_none());
    }
}
