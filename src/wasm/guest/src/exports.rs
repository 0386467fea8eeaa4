//! Interface of a module: memory for messages, calls with a message, log.
//!
//! The host writes a request into memory of [`malloc`], and reads the reply, which it frees.

#![allow(unsafe_code)] // names of functions that the host calls, and a function of the host

use nri_api::proto::{LogRequest, log_request::Level};
use protobuf::Message;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bit of the size of a reply that marks it as an error.
const IS_ERROR: u64 = 1 << 31;

/// Memory of messages, by its address.
static MESSAGES: Mutex<BTreeMap<u32, Vec<u8>>> = Mutex::new(BTreeMap::new());

// SAFETY: the host defines the function so.
#[link(wasm_import_module = "env")]
unsafe extern "C" {
    #[link_name = "log"]
    safe fn host_log(pointer: u32, size: u32) -> u64;
}

/// Returns the version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_api_version() -> u64 {
    1
}

/// Allocates memory for a message of the host.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: u32) -> u32 {
    keep(vec![0; size as usize])
}

/// Frees a message.
#[unsafe(no_mangle)]
pub extern "C" fn free(pointer: u32) {
    messages().remove(&pointer);
}

/// Exports functions that take a message and return a message or an error.
macro_rules! export {
    ($($name:ident = $handler:path;)*) => {$(
        #[doc = concat!("Calls `", stringify!($handler), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(pointer: u32, _size: u32) -> u64 {
            $crate::exports::handle(pointer, $handler)
        }
    )*};
}
pub(crate) use export;

/// Handles the request at an address; returns address and size of the reply.
pub(crate) fn handle<Q: Message, R: Message>(
    pointer: u32,
    handler: impl Fn(Q) -> Result<R, String>,
) -> u64 {
    let request = messages().get(&pointer).cloned().unwrap_or_default();
    let reply = Q::parse_from_bytes(&request).map_err(|e| e.to_string()).and_then(handler);
    match reply.and_then(|reply| reply.write_to_bytes().map_err(|e| e.to_string())) {
        Ok(bytes) => packed(bytes),
        Err(error) => packed(error.into_bytes()) | IS_ERROR,
    }
}

/// Writes a line to the plugin's log.
pub(crate) fn log(text: &str) {
    let level = Level::LEVEL_INFO.into();
    let request = LogRequest { msg: text.to_owned(), level, ..Default::default() };
    let message = packed(request.write_to_bytes().unwrap_or_default());
    let pointer = (message >> 32) as u32;
    host_log(pointer, message as u32);
    free(pointer);
}

fn packed(bytes: Vec<u8>) -> u64 {
    let size = bytes.len() as u64;
    if size == 0 { 0 } else { u64::from(keep(bytes)) << 32 | size }
}

/// Keeps a message until the host frees it. Addresses have 32 bits in WebAssembly.
fn keep(bytes: Vec<u8>) -> u32 {
    let pointer = bytes.as_ptr() as usize as u32;
    messages().insert(pointer, bytes);
    pointer
}

fn messages() -> MutexGuard<'static, BTreeMap<u32, Vec<u8>>> {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}
