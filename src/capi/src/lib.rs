//! NRI for container runtimes and engines in C: `libnri`, with the functions of
//! `include/nri.h`. The header is the documentation of the functions; the repository's
//! `docs/reference/embedding.md` shows how to build and link.
//!
//! [`ffi`] has the functions, and `callbacks` those of the program; all unsafe code is in these
//! two. `instance` does the work, on texts. Everything else is in `nri-runtime`.

mod callbacks;
mod facts;
mod failure;
pub mod ffi;
mod instance;
mod messages;
