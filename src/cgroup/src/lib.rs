//! Control groups: which hierarchies there are, where a container is in them, and which files hold
//! what its resources ask for.
//!
//! Pure: it reads the texts that the kernel gives and says what is to be written and what is to be
//! found; the caller reads and writes the files. Start from [`hierarchies`], then
//! [`Place::of_process`] or [`Place::of_path`], then [`settings`].

#![forbid(unsafe_code)]

mod blkio;
mod controller;
mod cpu;
mod cpuset;
mod devices;
mod expect;
mod hierarchy;
mod hugetlb;
mod membership;
mod memory;
mod pids;
mod place;
mod rdt;
mod setting;
mod systemd;
mod unified;
mod weight;

pub use controller::Controller;
pub use expect::Expect;
pub use hierarchy::{Hierarchy, Kind, hierarchies};
pub use membership::path_in;
pub use place::Place;
pub use rdt::rdt_settings;
pub use setting::{Plan, Setting, settings};
pub use systemd::scope_path;
