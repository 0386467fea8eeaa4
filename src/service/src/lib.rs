//! The resident core: it knows the containers, asks the plugins, and changes what they agree on.
//!
//! The imperative shell around the pure crates: what may be asked is decided in `nri-merge`, what becomes of a document in `nri-spec`, in which order plugins are
//! asked in `nri-adaptation`. Start from [`service::Service`], and from [`server`] for what comes in. A file per verb or notion:
//!
//! | file | what |
//! |---|---|
//! | `server`, `channel`, `status` | the control socket, from a verb's beginning to its end |
//! | `create`, `shown`, `update`, `hook`, `life`, `exits` | what verbs, hooks and exits mean to plugins |
//! | `keeper`, `setting` | what plugins see and change at any time |
//! | `record`, `registry`, `claims`, `store` | what is known, in memory and on disk |
//! | `bundle`, `inject`, `runtime`, `host`, `proc`, `look`, `infra` | the bundle, our hook, the real runtime, the host |
//! | `cdi`, `classes`, `capabilities`, `structured` | what an adjustment needs of the host: devices and classes by name, what the runtime can do |
//! | `reload`, `policies`, `restart` | another configuration while it runs; what it says of plugins; another program in its place |
//! | `start`, `settings`, `activation`, `background`, `sockets`, `state_dir`, `lock`, `log`, `idle` | the process |

#![deny(unsafe_code)]

pub mod activation;
pub mod background;
pub mod bundle;
pub mod capabilities;
pub mod cdi;
pub mod cgroups;
pub mod chain;
pub mod channel;
pub mod claims;
pub mod classes;
pub mod containerd;
pub mod create;
pub mod draft;
pub mod enforce;
pub mod engine_nri;
pub mod exec_marker;
pub mod exits;
pub mod gone;
pub mod grpc;
pub mod hook;
pub mod host;
pub mod idle;
pub mod infra;
pub mod inject;
pub mod keeper;
pub mod life;
pub mod lock;
pub mod log;
pub mod look;
pub mod names;
pub mod network;
pub mod oom;
pub mod owned;
pub mod policies;
pub mod proc;
pub mod recall;
pub mod record;
pub mod registry;
pub mod reload;
pub mod restart;
pub mod runtime;
pub mod server;
pub mod service;
pub mod setting;
pub mod settings;
pub mod shadow;
pub mod sharing;
pub mod shown;
pub mod sockets;
pub mod start;
pub mod state_dir;
pub mod status;
pub mod store;
pub mod structured;
mod sys;
pub mod update;
pub mod update_args;
pub mod verify;
