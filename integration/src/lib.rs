//! Harness of the tests with real runtimes and real plugins. It observes the programs only from
//! outside, as an engine, a plugin and an administrator do: command lines, sockets, files,
//! processes, cgroups.
//!
//! Each test has a [`Node`] of its own (configuration, state directory, plugins, runtime root,
//! bundles), so that tests run in parallel. A test that this machine cannot run is skipped; a skip
//! is printed, counted and, with `CI=true`, a failure ([`skip`]). Tests do not sleep: they wait for
//! a condition with a deadline ([`wait_until`]). Start from [`Node`] and [`for_each_runtime`].

#![forbid(unsafe_code)]

mod bundle;
mod call;
mod cgroup_file;
mod container_process;
mod crash;
pub mod engines;
mod enter;
mod events;
mod fake_runtime;
mod hanging;
mod journal;
mod machine;
mod message_check;
mod node;
mod paused_runtime;
mod plugins;
mod process;
mod programs;
mod report;
mod runtime;
mod sessions;
mod skip;
mod snapshot;
mod stop_flag;
mod terminal;
mod versions;
mod view;
mod wait;

pub use bundle::Bundle;
pub use call::{Ended, run};
pub use container_process::ContainerProcess;
pub use crash::{Crash, Following, can_crash};
pub use enter::after;
pub use events::{FROM_STOP, REQUESTED, TO_START, life_cycle};
pub use fake_runtime::fake_runtime;
pub use hanging::Hanging;
pub use journal::Journal;
pub use machine::{cpusets, is_root, kernel_reports_exit_codes, systemd, unified_cgroups};
pub use message_check::message_defect;
pub use node::Node;
pub use paused_runtime::PausedRuntime;
pub use plugins::{External, Program, go};
pub use process::Process;
pub use programs::{build_dir as program_dir, copy_program, find_program, script, write_program};
pub use report::Report;
pub use runtime::{Runtime, Unfit, for_each_runtime, hugepages, runtimes};
pub use skip::{limitation, skip};
pub use snapshot::{cgroups_of, digest_tree};
pub use stop_flag::StopFlag;
pub use terminal::Terminal;
pub use versions::{Version, versions};
pub use view::View;
pub use wait::{TIMEOUT, wait_until};
