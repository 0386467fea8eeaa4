//! Control groups: which hierarchies there are, and where a process is in them.
//!
//! Pure: it reads the texts that the kernel gives, the caller reads the files. Setting resources beyond what the runtimes' `update` can is to come here; until
//! then such a wish of a plugin is refused by name (`nrid`, `setting.rs`). Start from [`hierarchies`].

#![forbid(unsafe_code)]

mod hierarchy;
mod membership;

pub use hierarchy::{Hierarchy, Kind, hierarchies};
pub use membership::path_in;
