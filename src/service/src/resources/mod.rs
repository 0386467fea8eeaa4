//! Resources of containers: what is requested, what is effective, who owns which field.

pub mod apply;
pub mod capabilities;
pub mod enforce;
pub mod error;
pub mod eviction;
pub mod manager;
pub mod owners;
pub mod plugin_requests;
pub mod updatable;
pub mod versions;
