//! Merges the replies of several plugins into one outcome, or reports the conflict between them.
//!
//! Start from [`CreateMerge`], [`UpdateMerge`] and [`UpdatesMerge`], which take the replies in call
//! order. The first two also return the request for the next plugin. [`validator`] is the built-in
//! validator of an outcome. This crate does no I/O, does not depend on the OCI config, and leaves
//! to the caller what happens to a plugin whose reply was refused.
//!
//! # The merged adjustment
//!
//! [`CreateOutcome::adjust`] lists the changes of the container that the engine requested, in the
//! form of upstream NRI. The following rules make the result independent of the order in which keys
//! are applied:
//!
//! - **Keys**: annotations, sysctls and network devices (key of the map), mounts (destination),
//!   environment (name), devices (path), namespaces (type). An entry whose key is `-KEY` removes
//!   KEY from the container; its other fields are empty. Any other entry sets KEY and replaces the
//!   container's value. **There is at most one entry for each KEY**: `-KEY` and `KEY` never occur
//!   together. A key that was removed and then set, by one plugin or by two, counts as set.
//! - A removal is kept even if the container has no such key, because the container in the
//!   request may lack parts of the OCI config.
//! - Keys without removal: rlimits (type), huge page limits (page size), `unified` (name), CDI
//!   devices (name). Each occurs at most once and replaces the container's value; CDI devices are
//!   added.
//! - `args`: all arguments, without the leading `""` of a reply; empty means not adjusted.
//! - `hooks` and `linux.resources.devices` (rules of the device cgroup) are appended in their
//!   order.
//! - `linux.rdt`: `remove` is set only if `clos_id`, `schemata` and `enable_monitoring` are absent;
//!   these three overlay the container's values.
//! - `linux.resources.blockio_class` and `rdt_class`: present and empty removes the class. `pids`
//!   with limit 0 is a value.
//! - Any other field: present means set. Absent, or empty for types without presence
//!   (`cgroups_path`, `cpus`, `mems`), means not adjusted. Messages without content are absent: an
//!   adjustment without changes equals its default.
//!
//! Lists are in the order in which plugins set their entries, with the (sorted) removals of a reply
//! before its other entries. Maps have no order: code that walks a map and can fail should sort the
//! keys first, so that it always reports the same error.

#![forbid(unsafe_code)]

mod create;
mod error;
mod evictions;
mod fields;
mod ignored;
mod marked;
mod merged;
mod named;
mod outcome;
mod owners;
mod plugins_of;
mod resources;
mod unknown;
mod unowned;
mod update;
mod updates;
pub mod validator;

pub use create::CreateMerge;
pub use error::MergeError;
pub use outcome::{CreateOutcome, FailedUpdate, Ignored, UpdateOutcome, UpdatesOutcome};
pub use plugins_of::plugins_of;
pub use unowned::UnownedChanges;
pub use update::UpdateMerge;
pub use updates::UpdatesMerge;
