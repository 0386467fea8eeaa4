//! CDI, the container device interface: names of devices become edits of the OCI config.
//!
//! [`CdiRegistry`] holds the specifications of `/etc/cdi` and `/var/run/cdi`, which its caller
//! reads; [`CdiEdits`] are the changes that they define, and `apply` makes them. The format is that
//! of <https://tags.cncf.io/container-device-interface>, up to version 1.1.0.

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
