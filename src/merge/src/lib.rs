//! Many plugins' replies to one outcome, or the conflict that forbids it.
//!
//! Start from [`CreateMerge`], [`UpdateMerge`] and [`UpdatesMerge`]: each takes the replies in the
//! order of the plugins and tells what the next plugin is to see. [`validator`] is the built-in
//! judge of an outcome. Nothing here does I/O, knows the OCI document, or decides what becomes of a
//! plugin whose reply was refused.
//!
//! # The merged adjustment
//!
//! [`CreateOutcome::adjust`] says what to change in the container as the engine asked for it. Its
//! form is upstream's, made strict, so that it can be applied in any order of keys:
//!
//! - **Keys**: annotations, sysctls and network devices (key of the map), mounts (destination),
//!   environment (name), devices (path), namespaces (type). An entry whose key is `-KEY` removes
//!   KEY from the container; its other fields are empty. Any other entry sets KEY, replacing what
//!   the container has. **For one KEY there is one entry at most**, either kind: `-KEY` and `KEY`
//!   never stand beside each other, and what was removed and then set, by one plugin or by two, is
//!   just set.
//! - A removal stays even where the container has no such key: the container that plugins see need
//!   not tell everything.
//! - Keys without removal: rlimits (type), huge page limits (page size), `unified` (name), CDI
//!   devices (name). Each is there once at most and replaces what the container has; CDI devices
//!   are added.
//! - `args`: all arguments, without the leading `""` of a reply; empty means that they are not
//!   adjusted.
//! - `hooks` and `linux.resources.devices` (rules of the device cgroup) are to be appended, in
//!   their order.
//! - `linux.rdt`: `remove` is set only where none of the other three is; these are laid on top of
//!   what the container has.
//! - `linux.resources.blockio_class`, `rdt_class`: present and empty means: no class. `pids` with
//!   limit 0 is a value.
//! - Everything else: present means set. Absent, or empty where the protocol knows no absence
//!   (`cgroups_path`, `cpus`, `mems`), means not adjusted. Sub-messages without content are absent:
//!   without changes the adjustment equals its default.
//!
//! Lists are in the order in which plugins set their entries, removals of a reply (sorted) before
//! what it sets. Maps have no order: whoever walks one and may fail should sort it.

#![forbid(unsafe_code)]

mod annotations;
mod args;
mod blockio;
mod cdi;
mod cgroups_path;
mod cpu;
mod create;
mod device_rules;
mod devices;
mod env;
mod error;
mod evictions;
mod hooks;
mod hugepages;
mod ignored;
mod io_priority;
mod marked;
mod memory;
mod memory_policy;
mod merged;
mod mounts;
mod named;
mod namespaces;
mod net_devices;
mod oom_score_adj;
mod outcome;
mod owners;
mod pids;
mod rdt;
mod rdt_class;
mod resources;
mod rlimits;
mod scheduler;
mod seccomp;
mod sysctl;
mod unified;
mod update;
mod updates;
pub mod validator;

pub use create::CreateMerge;
pub use error::MergeError;
pub use outcome::{CreateOutcome, FailedUpdate, Ignored, UpdateOutcome, UpdatesOutcome};
pub use update::UpdateMerge;
pub use updates::UpdatesMerge;
