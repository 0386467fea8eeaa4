//! Control groups: the mounted hierarchies, the cgroups of a container in them, and the files that
//! hold its resources.
//!
//! The crate does no I/O: it takes the texts of kernel files, and returns what to write and what to
//! read back. Names and files of resource fields come from [`nri_api::RESOURCE_FIELDS`].
//! Start from [`Hierarchy`], then [`CgroupDirs::of_process`] or [`CgroupDirs::of_path`], then
//! [`plan`].
//!
//! youki's `libcgroups` writes the same files, but is not used. Its managers apply resources as a
//! runtime does: all controllers in turn, up to the first error. They read back only the limits of
//! memory and pids (in `stats`). `nrid` must prove after the runtime's write that each file shows
//! the requested value, in any notation of the kernel (whole pages, `max`, lists of ranges, either
//! conversion of shares to weights). It must write only what differs, and before the first write
//! it must name the fields for which the host has no file. In `libcgroups` the controllers and
//! their conversions are private, and a manager gets the path of the cgroup from its creator,
//! whereas `nrid` reads the path from `/proc/PID/cgroup`.

#![forbid(unsafe_code)]

mod controller;
mod controllers;
mod dirs;
mod effective;
mod equivalent;
mod hierarchy;
mod plan;
mod proc_cgroup;
mod resctrl;
mod set_change;
mod systemd;
mod write;

pub use controller::Controller;
pub use controllers::plan;
pub use dirs::{CgroupDirs, configured_path};
pub use effective::EffectiveValue;
pub use equivalent::{effective_resources, file_texts, incomparable_entry};
pub use hierarchy::{Hierarchy, HierarchyKind};
pub use plan::Plan;
pub use proc_cgroup::path_in_hierarchy;
pub use resctrl::resctrl_writes;
pub use set_change::SetChange;
pub use systemd::scope_path;
pub use write::CgroupWrite;
