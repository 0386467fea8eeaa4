//! The resident core: it knows the containers, asks the plugins, and changes what they agree on.
//!
//! The imperative shell around the pure crates: what may be asked is decided in `nri-merge`, what
//! becomes of a document in `nri-spec`, in which order plugins are asked in `nri-adaptation`. Start
//! from [`service::Service`], and from [`control::server`] for what comes in. A folder per notion,
//! data types at the bottom:
//!
//! | folder | what |
//! |---|---|
//! | `host`, `engine`, `bundle` | what the host, the container engine and the bundle are asked and given |
//! | `state` | records of containers and pods, in memory and on disk |
//! | `resources` | what is requested, what is effective, who owns which field |
//! | `lifecycle` | what happens to a container after its creation |
//! | `verb` | create, run, start, update, delete, and our hook |
//! | `control` | the control socket |
//! | `daemon` | the process: start, restart, sockets, log |
//! | `settings` | the configuration and the state directory |

#![deny(unsafe_code)]

pub mod bundle;
pub mod cgroup;
pub mod channel;
pub mod control;
pub mod daemon;
pub mod engine;
pub mod error;
pub mod host;
pub mod lifecycle;
pub mod resources;
pub mod service;
pub mod settings;
pub mod state;
pub mod verb;
