//! CDI, the Container Device Interface: plugins request devices by name, and specification files
//! define the edits of the OCI config that inject each device.
//!
//! [`CdiRegistry`] holds the specifications of `/etc/cdi` and `/var/run/cdi`, whose files the
//! caller reads; [`CdiEdits`] are the edits of a device, and `apply` applies them. The file format
//! is that of <https://tags.cncf.io/container-device-interface>, up to version 1.1.0.

pub(crate) mod apply;
pub(crate) mod edits;
pub(crate) mod error;
mod name;
mod registry;
mod version;

pub use edits::{CdiDeviceNode, CdiEdits, CdiHook, CdiMount, CdiNetDevice};
pub use error::{CdiError, InvalidCdiSpec};
pub use name::CdiDeviceName;
pub use registry::{CdiRegistry, CdiSpecFile};
