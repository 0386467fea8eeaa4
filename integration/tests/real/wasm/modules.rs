//! Modules that misbehave, as text of WebAssembly.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Never returns.
pub(super) const LOOPS: &str = "(loop $again (br $again)) (unreachable)";

/// Asks for memory, a MiB at a time, and writes to it.
pub(super) const EATS_MEMORY: &str = "
    (local $page i32)
    (loop $again
      (local.set $page (memory.grow (i32.const 16)))
      (i32.store (i32.mul (local.get $page) (i32.const 65536)) (i32.const 1))
      (br $again))
    (unreachable)";

/// Returns an empty reply.
pub(super) const RETURNS_NOTHING: &str = "(i64.const 0)";

/// Traps.
pub(super) const TRAPS: &str = "(unreachable)";

/// Returns a module that handles the creation of containers with these instructions. Requests are
/// written to a fixed address, behind which there is room for a message of 4 MiB.
pub(super) fn module(instructions: &str) -> Vec<u8> {
    let text = format!(
        "(module
           (memory (export \"memory\") 66)
           (func (export \"malloc\") (param i32) (result i32) (i32.const 65536))
           (func (export \"free\") (param i32))
           (func (export \"plugin_api_version\") (result i64) (i64.const 1))
           (func (export \"plugin_create_container\") (param i32 i32) (result i64)
             {instructions}))"
    );
    wat::parse_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Installs a module as a plugin.
pub(super) fn install(path: &Path, module: &[u8]) {
    fs::write(path, module).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
