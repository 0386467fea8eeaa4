//! Records of containers and pods, in memory and on disk, and the locks on them.

pub mod cgroups;
pub mod claims;
pub mod container;
pub mod derived;
pub mod exec_marker;
pub mod external_plugins;
pub mod followed;
mod index;
mod json;
pub mod key;
pub mod locked;
pub mod locks;
pub mod pod;
pub mod pods;
pub mod record;
pub mod registry;
mod set_by_plugins;
mod spares;
pub mod status;
pub mod store;
pub mod verbs;
