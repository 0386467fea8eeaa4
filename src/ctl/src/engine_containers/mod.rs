//! The running containers of Docker, Podman, containerd and CRI-O, and whether
//! `nri-container-runtime` started them: `nrictl containers --all-runtimes`, and the replies about
//! a container that `nrid` does not know.
//!
//! No engine is asked: [`find()`] reads `/proc`, the engines' files and the records of `nrid`, in
//! limited time. Containers of BuildKit are not found.

mod advice;
mod find;
mod list;
mod lookup;
mod names;
mod read;

pub(crate) use advice::shown;
pub(crate) use find::{EngineContainer, TIMEOUT, Wrapper, find};
pub(crate) use list::print_all;
pub(crate) use lookup::{explain_unknown, or_unknown};
pub(crate) use names::{few, name_and_id};
pub(crate) use read::write_containers;
