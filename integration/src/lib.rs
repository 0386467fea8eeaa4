//! Harness of the tests with real runtimes and real plugins. It uses and observes the programs only
//! from outside, as engines, plugins and administrators do: by command lines, sockets, files,
//! processes and cgroups.
//!
//! Each test has a [`Node`] of its own (configuration, state directory, plugins, runtime root,
//! bundles), so that tests run in parallel. A test that this machine cannot run is skipped; a skip
//! is printed, counted and, with `CI=true`, a failure ([`skip`]). Tests do not sleep: they wait for
//! a condition with a deadline ([`wait_until`]). Start from [`Node`] and [`for_each_runtime`].

#![forbid(unsafe_code)]

mod bundle;
mod call;
mod cgroup_file;
pub mod engines;
mod enter;
mod hanging;
mod machine;
mod message_check;
mod node;
mod plugin;
mod process;
mod programs;
mod report;
mod runtime;
mod skip;
mod snapshot;
mod stop_flag;
mod wait;

pub use bundle::Bundle;
pub use call::{Ended, run};
pub use enter::command_after;
pub use hanging::{FreezableFileSystem, HangingFileSystem};
pub use machine::{
    cgroup_root, disk, has_cpusets, is_cgroup_v2, is_root, kernel_reports_exit_codes, uses_systemd,
};
pub use message_check::message_defect;
pub use node::Node;
pub use plugin::events::{FROM_STOP, REQUESTED, TO_START, WITHOUT_VALIDATION, life_cycle};
pub use plugin::journal::Journal;
pub use plugin::programs::{External, Program, go_plugin, v010_plugin};
pub use plugin::samples::{HostFile, samples};
pub use plugin::service::PluginService;
pub use plugin::tutorial::{Newcomer, template_plugin, tutorial_plugin};
pub use plugin::versions::{Version, versions};
pub use plugin::view::View;
pub use plugin::wasm::wasm_guests;
pub use process::container_process::ContainerProcess;
pub use process::crash::{Crash, TracedProcess, check_tracing};
pub use process::host_process::Process;
pub use process::terminal::Terminal;
pub use programs::{build_dir as program_dir, copy_program, find_program, script, write_program};
pub use report::Report;
pub use runtime::fake_runtime::fake_runtime;
pub use runtime::low_level::{Runtime, Unfit, for_each_runtime, has_hugepages, runtimes};
pub use runtime::paused_runtime::PausedRuntime;
pub use skip::{limitation, skip};
pub use snapshot::{cgroups_of, digest_tree};
pub use stop_flag::StopFlag;
pub use wait::{TIMEOUT, wait_until};
