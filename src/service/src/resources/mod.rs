//! Resources of containers: requested and effective values, owners of fields, and updates.

pub mod capabilities;
pub mod changes;
pub mod enforce;
pub mod idle;
pub mod known_host;
pub mod manager;
pub mod owners;
mod replaced;
mod runtime_update;
pub mod updatable;
pub mod update;
pub mod versions;
