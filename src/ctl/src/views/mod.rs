//! What `nrid` knows of containers and pods: `nrictl containers`, `pods` and `inspect`. Their JSON
//! is described in `docs/reference/nrictl.md`.

mod containers;
mod freezer;
mod inspect;
mod pods;
mod request;
mod text;

pub(crate) use containers::ListContainers;
pub(crate) use freezer::state;
pub(crate) use inspect::Inspect;
pub(crate) use pods::ListPods;
pub(crate) use request::DescribeClient;
pub(crate) use text::short_id;
