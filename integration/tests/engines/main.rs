//! Tests of real container engines with the wrapper as their runtime, and with real plugins. The
//! tests of all engines are one program, because linking a program for each engine would be slow.
//!
//! `NRI_ENGINE_SUITES="trixie"` selects the Debian suites whose engines are tested. If the variable
//! is not set, the tests use every suite that `engines/setup.sh` has installed.

/// Defines two tests for each generic function: `docker::NAME` and `podman::NAME`.
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
mod all_runtimes;
mod both;
mod cri;
mod ctr;
mod docker;
mod own_nri;
mod pod_facts;
mod podman;
mod restart;
mod rootless;
mod sdk;
mod tutorial;
