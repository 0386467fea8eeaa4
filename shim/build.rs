//! Links the wrapper and the hook statically where that is possible: without a dynamic loader they
//! start faster. The wrapper's own entry point can then decide on a call before the C library
//! starts, see `src/entry.rs`.
//!
//! `-C target-feature=+crt-static` would be the usual way, but it applies to all programs of a
//! build, and to procedural macros, which cannot be static. So this script lets the linker find
//! static libraries under the names of the shared ones. If a static library is missing (package
//! libc6-dev), and on other platforms, the program is linked as usual, and does all its work after
//! the C library's start.

use std::{env, fs, path::Path, process::Command};

/// Shared libraries that Rust links, and the static libraries that take their place.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("libc.so", &["libc.a", "libgcc_eh.a", "libgcc.a"]),
    ("libgcc_s.so", &["libgcc_eh.a", "libgcc.a"]),
    ("libm.so", &["libm.a"]),
];

/// The program with an entry point of its own.
const WRAPPER: &str = "nri-container-runtime";

/// Functions that the compiled entry point may call, but that the C library prepares only at its
/// start. `src/entry.rs` replaces them.
const WRAPPED: [&str; 6] = ["memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen"];

fn main() {
    println!("cargo::rerun-if-changed=../shim/build.rs");
    println!("cargo::rustc-check-cfg=cfg(early_entry)");
    if !is_supported() {
        return;
    }
    let directory = env::var("OUT_DIR").unwrap_or_default();
    for (shared, libraries) in LIBRARIES {
        let paths: Option<Vec<String>> = libraries.iter().map(|name| path_of(name)).collect();
        let Some(paths) = paths else {
            println!("cargo::warning=no static C library, so the program is linked dynamically");
            return;
        };
        // After an upgrade of the C compiler, its libraries may be in another directory.
        for path in &paths {
            println!("cargo::rerun-if-changed={path}");
        }
        let script = format!("GROUP ( {} )\n", paths.join(" "));
        if let Err(e) = fs::write(Path::new(&directory).join(shared), script) {
            println!("cargo::error={directory}: {e}");
        }
    }
    // Not as `rustc-link-search`: Cargo passes such directories to the documentation tests of all
    // packages, too, which link dynamically.
    println!("cargo::rustc-link-arg-bins=-L{directory}");
    // Not relocatable: before the start of the C library, no address would be relocated.
    println!("cargo::rustc-link-arg-bins=-static");
    println!("cargo::rustc-link-arg-bins=-no-pie");
    if env::var("CARGO_PKG_NAME").is_ok_and(|name| name == WRAPPER) {
        println!("cargo::rustc-link-arg-bins=-Wl,-e,nri_entry");
        for name in WRAPPED {
            println!("cargo::rustc-link-arg-bins=-Wl,--wrap={name}");
        }
        println!("cargo::rustc-cfg=early_entry");
    }
}

/// Whether the entry point is written for this platform. A sanitizer needs start-up code of its
/// own.
fn is_supported() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && env::var("HOST") == env::var("TARGET")
        && !flags.contains("sanitizer")
}

/// Returns the path of a library of the C compiler, which is the linker.
fn path_of(library: &str) -> Option<String> {
    let found = Command::new("cc").arg(format!("-print-file-name={library}")).output().ok()?;
    let path = String::from_utf8(found.stdout).ok()?.trim().to_owned();
    // The compiler repeats the name of a library that it does not have.
    Path::new(&path).is_absolute().then_some(path)
}
