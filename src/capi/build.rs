//! Gives the shared library the name that programs look it up by: it changes with an incompatible
//! `nri.h`.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnri.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
