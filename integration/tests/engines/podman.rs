//! Podman.
