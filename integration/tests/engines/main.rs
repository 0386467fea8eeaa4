//! Tests of real container engines with the wrapper as their runtime, and of real plugins. They are
//! one program, so that it is linked once.
//!
//! `NRI_ENGINE_SUITES="trixie"` selects the Debian suites. Without it the tests use every suite
//! that `engines/setup.sh` has installed.

/// Makes two tests of each generic function: `docker::NAME` and `podman::NAME`.
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
