//! Access to the host: `/proc`, mounts, paths, CDI and class files, and the low-level runtime.

pub mod adjustment_paths;
pub mod cdi;
pub mod classes;
pub mod clock;
pub mod error_chain;
pub mod hierarchies;
pub mod network;
pub mod path_probe;
pub mod proc;
pub mod process;
pub mod runtime;
pub mod structured;
pub(crate) mod sys;
