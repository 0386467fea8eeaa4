//! [`to_container`]: converts an OCI config and [`ContainerInfo`] to the container that plugins
//! see.

use crate::fields;
use crate::json::read::{Read, field_or_default, integer, list, message, object};
use crate::json::wrong_type::WrongType;
use crate::oci_config::OciConfig;
use nri_api::proto::{CDIDevice, Container, ContainerState, LinuxContainer, SecurityProfile, User};
use nri_api::{opt, proto};
use protobuf::MessageField;
use serde_json::Value;
use std::collections::HashMap;

/// Facts about a container that its OCI config does not have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerInfo {
    /// Id of the container, as plugins see it.
    pub id: String,
    /// Id of its pod.
    pub pod_sandbox_id: String,
    /// Name within the pod.
    pub name: String,
    /// Labels.
    pub labels: HashMap<String, String>,
    /// Further annotations, which override those of the OCI config.
    pub annotations: HashMap<String, String>,
    /// Image of the root file system.
    pub image: Option<ContainerImage>,
    /// Life cycle state.
    pub state: ContainerState,
    /// Pid of the container process, 0 if there is none.
    pub pid: u32,
    /// Time of creation in nanoseconds since the epoch, 0 if unknown.
    pub created_at: i64,
    /// Time of the start in nanoseconds since the epoch, 0 if not started.
    pub started_at: i64,
    /// Time of the exit in nanoseconds since the epoch, 0 if not exited.
    pub finished_at: i64,
    /// Exit code of a container that has exited.
    pub exit_code: i32,
    /// Reason for the state, one word.
    pub status_reason: String,
    /// Reason for the state, a sentence.
    pub status_message: String,
    /// Names of the CDI devices that were injected.
    pub cdi_devices: Vec<String>,
    /// Origin of the seccomp policy; the OCI config has only the policy itself.
    pub seccomp_profile: Option<SecurityProfile>,
    /// Effective block I/O class.
    pub blockio_class: Option<String>,
    /// Effective RDT class.
    pub rdt_class: Option<String>,
}

/// An image of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerImage {
    /// Image reference, as the engine states it: name and tag or digest.
    pub name: String,
    /// Digest of the manifest.
    pub digest: String,
    /// Digest of the configuration.
    pub config_digest: String,
}

/// Converts every field that the protocol has.
///
/// # Errors
/// A field has a wrong type; the error has the path of the field.
pub fn to_container(config: &OciConfig, info: &ContainerInfo) -> Result<Container, WrongType> {
    let spec = object(config.value())?;
    let mut container = fields::read(spec)?;
    let user = |process| message(object(process)?, "user", read_user);
    container.user = field_or_default(spec, "process", user)?;
    let linux = container.linux.mut_or_insert_default();
    add_classes(linux, info);
    linux.seccomp_profile = info.seccomp_profile.clone().into();
    add_info(&mut container, info);
    Ok(container)
}

fn read_user(value: &Value) -> Read<User> {
    let fields = object(value)?;
    let mut user = User::new();
    user.uid = field_or_default(fields, "uid", integer)?;
    user.gid = field_or_default(fields, "gid", integer)?;
    user.additional_gids = field_or_default(fields, "additionalGids", list(integer))?;
    Ok(user)
}

fn add_classes(linux: &mut LinuxContainer, info: &ContainerInfo) {
    if info.blockio_class.is_some() {
        linux.resources.mut_or_insert_default().blockio_class = opt(info.blockio_class.clone());
    }
    if info.rdt_class.is_some() {
        linux.resources.mut_or_insert_default().rdt_class = opt(info.rdt_class.clone());
    }
}

fn add_info(container: &mut Container, info: &ContainerInfo) {
    container.id.clone_from(&info.id);
    container.pod_sandbox_id.clone_from(&info.pod_sandbox_id);
    container.name.clone_from(&info.name);
    container.labels.clone_from(&info.labels);
    container.annotations.extend(info.annotations.clone());
    container.state = info.state.into();
    container.pid = info.pid;
    container.created_at = info.created_at;
    container.started_at = info.started_at;
    container.finished_at = info.finished_at;
    container.exit_code = info.exit_code;
    container.status_reason.clone_from(&info.status_reason);
    container.status_message.clone_from(&info.status_message);
    let device = |name: &String| CDIDevice { name: name.clone(), ..Default::default() };
    container.CDI_devices = info.cdi_devices.iter().map(device).collect();
    if let Some(image) = &info.image {
        let mut message = proto::Image::new();
        message.name.clone_from(&image.name);
        message.digest.clone_from(&image.digest);
        message.config_digest.clone_from(&image.config_digest);
        container.image = MessageField::some(message);
    }
}
