//! Access to the host: `/proc`, mounts, paths, CDI and class files, and the low-level runtime.

pub mod adjustment_paths;
pub mod bounded_file;
pub mod cdi;
pub mod classes;
pub mod clock;
pub mod delegation;
pub mod descriptors;
pub mod error_chain;
pub mod file_access;
mod global_options;
pub mod hierarchies;
pub mod kernel;
pub mod line_limit;
pub mod mount_namespace;
pub mod near_files;
pub mod network;
pub mod path;
pub mod problems;
pub mod proc;
pub mod process;
pub mod removals;
pub mod runtime;
pub mod structured;
pub(crate) mod sys;
