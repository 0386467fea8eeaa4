//! Functions of the program that the library calls: [`Callbacks`], a [`RuntimeHandler`]. What their
//! results mean is in [`crate::facts`].
#![allow(unsafe_code)]

use async_trait::async_trait;
use nri_runtime::{
    CdiEdits, CdiError, CdiResolver, HandlerResult, HostDevice, PluginId, Propagation,
    RuntimeHandler,
};
use serde_json::Value;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use crate::facts::{self, Fact};

/// `nri_update_fn`: updates a container; 0, or a value of `errno`.
pub type UpdateFn = extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int;
/// `nri_evict_fn`: stops a container that a plugin evicts; 0, or a value of `errno`.
pub type EvictFn = extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int;
/// `nri_output_fn`: a line of output of a plugin.
pub type OutputFn = extern "C" fn(*mut c_void, *const c_char, *const c_char);
/// `nri_lookup_fn`: a fact about the host, as JSON in memory of `malloc`; null if it is unknown.
pub type LookupFn = extern "C" fn(*mut c_void, c_int, *const c_char) -> *mut c_char;

// SAFETY: `free` of the C library, with which Rust's standard library links.
unsafe extern "C" {
    fn free(memory: *mut c_void);
}

thread_local! {
    /// Whether this thread is in a callback, where waiting for a request could wait forever.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a callback.
pub(crate) fn in_callback() -> bool {
    IN_CALLBACK.get()
}

/// The functions that plugins' requests are passed to, and that know the host.
#[derive(Clone, Copy)]
pub(crate) struct Callbacks {
    pub(crate) update: Option<UpdateFn>,
    pub(crate) evict: Option<EvictFn>,
    pub(crate) output: Option<OutputFn>,
    pub(crate) lookup: Option<LookupFn>,
    pub(crate) data: *mut c_void,
}

// SAFETY: the functions and their data may be used by any thread: nri.h requires it of whoever
// sets them. This crate only hands `data` on, and never dereferences it.
unsafe impl Send for Callbacks {}
// SAFETY: as above; nri.h says that the functions may be called at the same time.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    /// Calls `call` with two texts.
    fn call<R>(self, first: &str, second: &str, call: impl FnOnce(Self, &CStr, &CStr) -> R) -> R {
        let (first, second) = (c_string(first), c_string(second));
        IN_CALLBACK.set(true);
        let result = call(self, &first, &second);
        IN_CALLBACK.set(false);
        result
    }

    /// Calls a function that may block, in a thread for such calls.
    async fn request(
        self,
        function: Option<UpdateFn>,
        container: &str,
        second: String,
    ) -> HandlerResult {
        let Some(function) = function else { return Err("not supported by the runtime".into()) };
        let container = container.to_owned();
        let called = tokio::task::spawn_blocking(move || {
            self.call(&container, &second, |callbacks, container, second| {
                function(callbacks.data, container.as_ptr(), second.as_ptr())
            })
        });
        match called.await? {
            0 => Ok(()),
            errno => Err(std::io::Error::from_raw_os_error(errno).into()),
        }
    }

    /// Looks up a fact; `None` if it is unknown, or the text is not JSON.
    fn fact(self, fact: Fact, name: &str) -> Option<Value> {
        let lookup = self.lookup?;
        let text = self.call(name, "", |callbacks, name, _| {
            lookup(callbacks.data, fact as c_int, name.as_ptr())
        });
        if text.is_null() {
            return None;
        }
        // SAFETY: `text` is not null, so it points to a text that ends with NUL, and that the
        // program gives to the library, as nri.h requires.
        let value = serde_json::from_slice(unsafe { CStr::from_ptr(text) }.to_bytes());
        // SAFETY: nri.h requires memory of `malloc`; nothing refers to it any more.
        unsafe { free(text.cast()) };
        value.ok()
    }
}

#[async_trait]
impl RuntimeHandler for Callbacks {
    async fn update_container(&self, container: &str, resources: &Value) -> HandlerResult {
        self.request(self.update, container, resources.to_string()).await
    }

    async fn evict_container(&self, container: &str, reason: &str) -> HandlerResult {
        self.request(self.evict, container, reason.to_owned()).await
    }

    fn plugin_output(&self, plugin: &PluginId, line: &str) {
        let Some(output) = self.output else { return };
        self.call(&plugin.to_string(), line, |callbacks, plugin, line| {
            output(callbacks.data, plugin.as_ptr(), line.as_ptr());
        });
    }

    fn blockio_class(&self, name: &str) -> Option<Value> {
        self.fact(Fact::BlockIoClass, name).filter(Value::is_object)
    }

    fn rdt_class(&self, name: &str) -> Option<Value> {
        self.fact(Fact::RdtClass, name).filter(Value::is_object)
    }

    fn cdi_devices(&self, names: &[&str]) -> Result<Vec<CdiEdits>, CdiError> {
        let specs = self.fact(Fact::CdiSpecs, "").and_then(facts::cdi_registry);
        specs.unwrap_or_default().resolve(names)
    }

    fn device(&self, path: &str) -> Option<HostDevice> {
        self.fact(Fact::Device, path).and_then(|device| facts::host_device(&device))
    }

    fn mount_propagation(&self, path: &str) -> Option<Propagation> {
        self.fact(Fact::MountPropagation, path).and_then(|value| facts::propagation(&value))
    }
}

/// Returns a text for C, without the NUL characters that it cannot have.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}
