//! Records of containers and pods, in memory and on disk.

pub mod claims;
pub mod record;
pub mod registry;
pub mod store;
