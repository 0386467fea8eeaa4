//! The functions of `include/nri.h`: pointers of C become references and texts here, and results
//! become pointers that `nri_free` takes back. What the library calls is in `callbacks`.
//!
//! A panic ends at the border as a failure. Whether a pointer is valid is the promise of the
//! caller, which `nri.h` states; null is checked wherever it is not allowed.
#![allow(unsafe_code)]

use nri_runtime::RuntimeConfig;
use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::time::Duration;

use crate::callbacks::{Callbacks, c_string, in_callback};
pub use crate::callbacks::{EvictFn, LookupFn, OutputFn, UpdateFn};
use crate::failure::Failure;
pub use crate::instance::Instance;

/// `struct nri_options`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct StartOptions {
    size: usize,
    runtime_name: *const c_char,
    runtime_version: *const c_char,
    plugin_dir: *const c_char,
    plugin_config_dir: *const c_char,
    socket: *const c_char,
    registration_timeout_ms: u32,
    request_timeout_ms: u32,
    state: *const c_char,
    update: Option<UpdateFn>,
    evict: Option<EvictFn>,
    output: Option<OutputFn>,
    lookup: Option<LookupFn>,
    data: *mut c_void,
}

/// Returns a text of C; `None` for null.
///
/// # Safety
/// `text` is null, or points to a text that ends with NUL and that does not change while the result
/// is used.
unsafe fn optional<'a>(
    name: &'static str,
    text: *const c_char,
) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: `text` is not null, so it points to a text, as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|e| Failure::argument(name, e))
}

/// Returns a text of C that must be there.
///
/// # Safety
/// As for [`optional`].
unsafe fn required<'a>(name: &'static str, text: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: the caller promises the same.
    let text = unsafe { optional(name, text)? };
    text.ok_or_else(|| Failure::argument(name, "is NULL"))
}

/// Returns the instance of a handle.
///
/// # Safety
/// `nri` is null, or a result of `nri_start` that was not shut down.
unsafe fn instance<'a>(nri: *const Instance) -> Result<&'a Instance, Failure> {
    // SAFETY: `nri` is null or points to an instance, as the caller promises.
    unsafe { nri.as_ref() }.ok_or_else(|| Failure::argument("nri", "is NULL"))
}

/// Writes a text to where C wants it, which may be nowhere.
///
/// # Safety
/// `to` is null or may be written to.
unsafe fn give(to: *mut *mut c_char, text: &str) {
    if !to.is_null() {
        // SAFETY: `to` is not null, so it may be written to, as the caller promises.
        unsafe { to.write(c_string(text).into_raw()) };
    }
}

/// Performs a function. Returns its code, and writes the error if it fails.
///
/// # Safety
/// `error` is null or may be written to.
unsafe fn guarded(error: *mut *mut c_char, work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let work = || {
        if in_callback() {
            Err(Failure::argument("nri", "is in use by the callback that calls this"))
        } else {
            work()
        }
    };
    let done = catch_unwind(AssertUnwindSafe(work));
    match done.unwrap_or_else(|panic| Err(Failure::Panic(panic_text(&*panic)))) {
        Ok(()) => 0,
        Err(failure) => {
            // SAFETY: the caller promises that `error` is null or may be written to.
            unsafe { give(error, &failure.to_string()) };
            failure.code()
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("unknown").to_owned()
}

impl StartOptions {
    /// Copies the options of a caller.
    ///
    /// # Safety
    /// `options` is null or points to as many bytes as its `size` says.
    unsafe fn read(options: *const Self) -> Result<Self, Failure> {
        // SAFETY: `options` is null or points to a `size` at least, as the caller promises.
        let size = unsafe { options.cast::<usize>().as_ref() };
        let size = size.ok_or_else(|| Failure::argument("options", "is NULL"))?;
        if *size != size_of::<Self>() {
            let reason = format!("is {size}, but this libnri has {}", size_of::<Self>());
            return Err(Failure::argument("options.size", reason));
        }
        // SAFETY: `options` points to `size` bytes, the size of the structure, whose fields have no
        // invalid values: numbers, pointers, and functions that may be null.
        Ok(unsafe { options.read() })
    }

    /// Returns the configuration.
    ///
    /// # Safety
    /// The texts are null or valid, as for [`optional`].
    unsafe fn config(&self) -> Result<RuntimeConfig, Failure> {
        // SAFETY: the texts are null or valid, as the caller promises.
        let (name, version, plugins, configs, socket) = unsafe {
            (
                required("options.runtime_name", self.runtime_name)?,
                optional("options.runtime_version", self.runtime_version)?,
                optional("options.plugin_dir", self.plugin_dir)?,
                optional("options.plugin_config_dir", self.plugin_config_dir)?,
                optional("options.socket", self.socket)?,
            )
        };
        let mut config = RuntimeConfig::new(name, version.unwrap_or_default());
        if let Some(dir) = plugins {
            config.plugin_dir = dir.into();
        }
        if let Some(dir) = configs {
            config.plugin_config_dir = dir.into();
        }
        if let Some(path) = socket {
            config.socket = Some(path).filter(|path| !path.is_empty()).map(Into::into);
        }
        let duration = |ms: u32| (ms != 0).then(|| Duration::from_millis(ms.into()));
        if let Some(limit) = duration(self.registration_timeout_ms) {
            config.registration_timeout = limit;
        }
        if let Some(limit) = duration(self.request_timeout_ms) {
            config.request_timeout = limit;
        }
        Ok(config)
    }
}

/// `nri_start`, see `nri.h`.
///
/// # Safety
/// The pointers are as `nri.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nri_start(
    options: *const StartOptions,
    nri: *mut *mut Instance,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller promises what `nri.h` says of `error`.
    unsafe {
        guarded(error, || {
            if nri.is_null() {
                return Err(Failure::argument("nri", "is NULL"));
            }
            let options = StartOptions::read(options)?;
            let StartOptions { update, evict, output, lookup, data, .. } = options;
            let callbacks = Callbacks { update, evict, output, lookup, data };
            let state = optional("options.state", options.state)?;
            let started = Instance::start(options.config()?, callbacks, state)?;
            nri.write(Box::into_raw(Box::new(started)));
            Ok(())
        })
    }
}

/// `nri_create_container`, see `nri.h`.
///
/// # Safety
/// The pointers are as `nri.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nri_create_container(
    nri: *const Instance,
    container: *const c_char,
    config: *const c_char,
    adjusted: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller promises what `nri.h` says of all pointers.
    unsafe {
        guarded(error, || {
            let (container, config) =
                (required("container", container)?, required("config", config)?);
            give(adjusted, &instance(nri)?.create_container(container, config)?);
            Ok(())
        })
    }
}

/// `nri_update_container`, see `nri.h`.
///
/// # Safety
/// The pointers are as `nri.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nri_update_container(
    nri: *const Instance,
    id: *const c_char,
    resources: *const c_char,
    adjusted: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller promises what `nri.h` says of all pointers.
    unsafe {
        guarded(error, || {
            let (id, resources) = (required("id", id)?, required("resources", resources)?);
            give(adjusted, &instance(nri)?.update_container(id, resources)?);
            Ok(())
        })
    }
}

/// `nri_event`, see `nri.h`.
///
/// # Safety
/// The pointers are as `nri.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nri_event(
    nri: *const Instance,
    kind: c_int,
    message: *const c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller promises what `nri.h` says of all pointers.
    unsafe { guarded(error, || instance(nri)?.event(kind, required("message", message)?)) }
}

/// `nri_state`, see `nri.h`.
///
/// # Safety
/// The pointers are as `nri.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nri_state(
    nri: *const Instance,
    state: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller promises what `nri.h` says of all pointers.
    unsafe {
        guarded(error, || {
            give(state, &instance(nri)?.state()?);
            Ok(())
        })
    }
}

/// `nri_plugins`, see `nri.h`.
///
/// # Safety
/// The pointers are as `nri.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nri_plugins(
    nri: *const Instance,
    plugins: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller promises what `nri.h` says of all pointers.
    unsafe {
        guarded(error, || {
            give(plugins, &instance(nri)?.plugins());
            Ok(())
        })
    }
}

/// `nri_shutdown`, see `nri.h`.
///
/// # Safety
/// `nri` is null, or a result of [`nri_start`] that no thread uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nri_shutdown(nri: *mut Instance) -> c_int {
    let work = || {
        if !nri.is_null() {
            // SAFETY: the pointer is of `Box::into_raw` in `nri_start`, and is not used any more,
            // as the caller promises.
            unsafe { Box::from_raw(nri) }.shutdown();
        }
        Ok(())
    };
    // SAFETY: null is allowed.
    unsafe { guarded(ptr::null_mut(), work) }
}

/// `nri_free`, see `nri.h`.
///
/// # Safety
/// `text` is null, or a text of this library that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nri_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the pointer is of `CString::into_raw` in `give`, as the caller promises.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// `nri_version`, see `nri.h`.
#[unsafe(no_mangle)]
pub extern "C" fn nri_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_runtime::{PluginId, RuntimeHandler};
    use serde_json::Value;
    use std::sync::Mutex;

    /// What callbacks received, and the error of a function that one of them called.
    type Calls = Mutex<Vec<String>>;

    fn text(of: *const c_char) -> String {
        // SAFETY: callbacks get texts that end with NUL.
        unsafe { CStr::from_ptr(of) }.to_str().unwrap().to_owned()
    }

    fn record(data: *mut c_void, call: String) {
        // SAFETY: `data` is the list of the test, which waits for all calls.
        unsafe { &*data.cast::<Calls>() }.lock().unwrap().push(call);
    }

    extern "C" fn evict(data: *mut c_void, id: *const c_char, why: *const c_char) -> c_int {
        let mut error = ptr::null_mut();
        // SAFETY: null is allowed, and `error` may be written to.
        let code = unsafe { nri_plugins(ptr::null(), ptr::null_mut(), &raw mut error) };
        record(data, format!("evict {} {}: {code} {}", text(id), text(why), text(error)));
        // SAFETY: the text is of `nri_plugins`.
        unsafe { nri_free(error) };
        5 // EIO
    }

    extern "C" fn output(data: *mut c_void, plugin: *const c_char, line: *const c_char) {
        record(data, format!("{}: {}", text(plugin), text(line)));
    }

    #[tokio::test]
    async fn callbacks_get_texts_and_cannot_call_the_library() {
        let calls = Calls::default();
        let data = (&raw const calls).cast_mut().cast();
        let (evict, output) = (Some(evict as EvictFn), Some(output as OutputFn));
        let callbacks = Callbacks { update: None, evict, output, lookup: None, data };
        let failed = callbacks.update_container("c", &Value::Null).await.unwrap_err();
        assert_eq!(failed.to_string(), "not supported by the runtime");
        let failed = callbacks.evict_container("c", "too\0 large").await.unwrap_err();
        assert_eq!(failed.to_string(), "Input/output error (os error 5)");
        callbacks.plugin_output(&PluginId::new("10", "a").unwrap(), "line");
        let expected =
            ["evict c too large: 1 nri: is in use by the callback that calls this", "10-a: line"];
        assert_eq!(*calls.lock().unwrap(), expected);
    }

    #[test]
    fn a_panic_is_an_error() {
        let mut error = ptr::null_mut();
        // SAFETY: `error` may be written to.
        let code = unsafe { guarded(&raw mut error, || panic!("of a {}", "test")) };
        assert_eq!((code, text(error).as_str()), (4, "a defect of libnri: of a test"));
        // SAFETY: the text is of `guarded`.
        unsafe { nri_free(error) };
    }
}
