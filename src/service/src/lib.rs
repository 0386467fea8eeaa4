//! The resident core: keeps records of containers, sends requests to plugins, and performs the
//! resulting changes.
//!
//! This crate does the I/O around the pure crates: `nri-merge` decides which adjustments are
//! allowed, `nri-spec` applies them to an OCI config. `nri-adaptation` orders the requests to
//! plugins. Start from [`control::server`], where requests arrive, and [`service::Service`], which
//! all requests share. A part imports only from those above it in this table, which
//! `tests/tests/tidy/layers.rs` checks:
//!
//! | part | contents |
//! |---|---|
//! | `host` | `/proc`, mounts, paths, processes, CDI and class files, the low-level runtime |
//! | `cgroup` | control groups of containers: files, threads, OOM kills |
//! | `bundle` | the bundles of engines and of `nrid`, and the hooks injected into `config.json` |
//! | `engine` | container engines: their APIs, names, and own NRI |
//! | `channel.rs` | the server's end of a control connection |
//! | `state` | records of containers and pods, in memory and on disk, and locks |
//! | `settings` | the configuration and the state directory |
//! | `audit` | the audit log |
//! | `error` | errors of requests, by the party at fault |
//! | `resources` | requested and effective resources, and the owners of their fields |
//! | `plugins` | configuration and launch of plugins, and what they request for containers |
//! | `process` | this process: program, log, sockets, end |
//! | `metrics` | metrics for Prometheus |
//! | `service.rs` | the state that all requests share |
//! | `lifecycle` | transitions of a container after plugins agree to its creation; shadow mode |
//! | `verb` | create, run, start, update, delete, and our hook |
//! | `control` | the control socket, and requests of operators |
//! | `daemon` | start and end: systemd, background, namespaces, handover |
//! | `dry_run` | `nrid --dry-run`, a process of its own |

#![deny(unsafe_code)]

pub mod audit;
pub mod bundle;
pub mod cgroup;
pub mod channel;
pub mod control;
pub mod daemon;
pub mod dry_run;
pub mod engine;
pub mod error;
pub mod host;
pub mod lifecycle;
pub mod metrics;
pub mod plugins;
pub mod process;
pub mod resources;
pub mod service;
pub mod settings;
pub mod state;
pub mod verb;
