//! Formats of executable files: programs, scripts, WebAssembly modules.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What an executable file is.
pub(crate) enum Format {
    /// An ELF file or a script with an interpreter line, which the kernel executes.
    Native,
    /// A WebAssembly module of version 1.
    WebAssembly,
    /// Anything else. A shell would take it for a script.
    Unknown,
}

/// Returns the format of a file by its first bytes. A program that may be executed but not read
/// counts as native.
pub(crate) fn format_of(path: &Path) -> io::Result<Format> {
    let mut head = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(8).read_to_end(&mut head)?,
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(Format::Native),
        Err(e) => return Err(e),
    };
    Ok(match &head[..] {
        [0x7f, b'E', b'L', b'F', ..] | [b'#', b'!', ..] => Format::Native,
        b"\0asm\x01\0\0\0" => Format::WebAssembly,
        _ => Format::Unknown,
    })
}
