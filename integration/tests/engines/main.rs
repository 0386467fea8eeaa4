//! Real container engines with the wrapper as their runtime, and real plugins. One program, so that it is linked once.
//!
//! `NRI_ENGINE_SUITES="trixie"` chooses the Debian suites whose engines are tested; without it, all that `engines/setup.sh` has installed.

mod cri;
mod ctr;
mod docker;
mod podman;
