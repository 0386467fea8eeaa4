//! The container as plugins see it once its document is agreed on: the merge knows what plugins
//! asked for, the document what became of it (the edits of CDI devices, a swap limit that came with
//! a memory limit).

use nri_api::proto::{CDIDevice, Container};
use nri_spec::{ContainerInfo, OciConfig, WrongType, to_container};

/// What plugins agreed on, with everything that a document tells taken from `document`, and the
/// injected devices. Classes that were taken away (the empty name) are gone.
///
/// # Errors
/// A field of the document has a wrong type.
pub fn shown(
    agreed: &Container,
    devices: &[CDIDevice],
    document: &OciConfig,
) -> Result<Container, WrongType> {
    let linux = agreed.linux.get_or_default();
    let named = |class: Option<&nri_api::proto::OptionalString>| {
        class.map(|c| c.value.clone()).filter(|name| !name.is_empty())
    };
    let info = ContainerInfo {
        blockio_class: named(linux.resources.blockio_class.as_ref()),
        rdt_class: named(linux.resources.rdt_class.as_ref()),
        seccomp_profile: linux.seccomp_profile.clone().into_option(),
        ..ContainerInfo::default()
    };
    let told = to_container(document, &info)?;
    let mut container = agreed.clone();
    container.args = told.args;
    container.env = told.env;
    container.mounts = told.mounts;
    container.hooks = told.hooks;
    container.rlimits = told.rlimits;
    container.user = told.user;
    container.linux = told.linux;
    container.CDI_devices.extend_from_slice(devices);
    Ok(container)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_document_tells_what_became() {
        let mut agreed = Container::new();
        agreed.id = "c".to_owned();
        agreed.env = vec!["A=1".to_owned()];
        agreed.annotations.insert("k".to_owned(), "v".to_owned());
        let resources = agreed.linux.mut_or_insert_default().resources.mut_or_insert_default();
        resources.blockio_class = nri_api::opt(Some("slow".to_owned()));
        resources.rdt_class = nri_api::opt(Some(String::new()));
        let document = json!({"ociVersion": "1.0.2", "process": {"env": ["A=1", "B=cdi"]},
            "linux": {"resources": {"memory": {"limit": 7, "swap": 7}}}});
        let device = CDIDevice { name: "example.org/thing=all".to_owned(), ..CDIDevice::default() };
        let document = OciConfig::from_value(document).unwrap();
        let container = shown(&agreed, std::slice::from_ref(&device), &document).unwrap();
        assert_eq!((container.id.as_str(), &container.annotations["k"]), ("c", &"v".to_owned()));
        assert_eq!(container.env, ["A=1", "B=cdi"]);
        assert_eq!(container.CDI_devices, [device]);
        let resources = &container.linux.resources;
        assert_eq!(resources.memory.swap.as_ref().map(|s| s.value), Some(7));
        assert_eq!(resources.blockio_class.as_ref().map(|c| c.value.as_str()), Some("slow"));
        assert!(resources.rdt_class.is_none());
    }
}
