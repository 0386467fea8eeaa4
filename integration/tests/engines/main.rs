//! Real container engines with the wrapper as their runtime, and real plugins. One program, so that
//! it is linked once.
//!
//! `NRI_ENGINE_SUITES="trixie"` chooses the Debian suites whose engines are tested; without it, all
//! that `engines/setup.sh` has installed.

/// Makes tests of both engines from functions that take either: `docker::NAME`, `podman::NAME`.
macro_rules! test_both {
    ($($name:ident),+ $(,)?) => {
        mod docker {
            $(#[test] fn $name() { super::$name::<nri_integration::engines::Docker>(); })+
        }
        mod podman {
            $(#[test] fn $name() { super::$name::<nri_integration::engines::Podman>(); })+
        }
    };
}

mod adjusted;
mod both;
mod cri;
mod ctr;
mod docker;
mod own_nri;
mod podman;
mod restart;
