//! A guest: the instance of a module, and calls of its functions within limits.
//!
//! Every call has a time limit, which the engine's fuel enforces: the guest runs in slices of fuel,
//! and gets another slice while there is time. [`memory`](crate::memory) enforces it for functions
//! of the host. An error other than [`GuestReply::Refused`] leaves
//! the guest in the middle of its work, so that it must not be called again.

use crate::error::Error;
use crate::functions::{API_VERSION, EVENTS, FREE, Function, INITIALIZE, MALLOC, OTHERS};
use crate::limits::GuestLimits;
use crate::{host, wasi};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wasmi::{
    CompilationMode, Config, Engine, Instance, Linker, Memory, Module, Store, TrapCode, TypedFunc,
    TypedResumableCall, WasmParams, WasmResults,
};

/// Version of the interface between module and host.
const SUPPORTED_API: u64 = 1;

/// Fuel of a slice, about one unit for each instruction: some milliseconds.
const SLICE: u64 = 1_000_000;

/// Fuel of the module's start function, which runs in one slice. No compiler of a language makes
/// one that does work.
const START_FUEL: u64 = 20 * SLICE;

/// Time limit of the initialization, as for the registration of a plugin in upstream NRI.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(5);

/// Bit of the size of a reply that marks it as the text of an error.
const IS_ERROR: u32 = 1 << 31;

/// Function that takes and returns a message.
type MessageFunction = TypedFunc<(u32, u32), u64>;

/// GuestReply of a guest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GuestReply {
    /// An encoded message.
    Message(Vec<u8>),
    /// The guest's error.
    Refused(String),
}

/// Instance of a module.
pub(crate) struct Guest {
    store: Store<GuestLimits>,
    memory: Memory,
    malloc: TypedFunc<u32, u32>,
    free: TypedFunc<u32, ()>,
    functions: BTreeMap<Function, MessageFunction>,
}

impl Guest {
    /// Instantiates and initializes a module; `memory` limits its memory, in bytes.
    ///
    /// # Errors
    /// The module is invalid, lacks what it has to export, or fails.
    pub(crate) fn new(module: &[u8], memory: usize) -> Result<Self, Error> {
        let mut config = Config::default();
        config.consume_fuel(true);
        // A translation during a call would take fuel, and could not be resumed with more.
        config.compilation_mode(CompilationMode::Eager);
        let engine = Engine::new(&config);
        let module = Module::new(&engine, module).map_err(Error::Module)?;
        let mut store = Store::new(&engine, GuestLimits::new(memory));
        store.limiter(|limits| &mut limits.store);
        store.data_mut().begin(START_LIMIT);
        let mut linker = Linker::new(&engine);
        host::define(&mut linker).map_err(|e| Error::Module(e.into()))?;
        wasi::define(&mut linker, &module).map_err(|e| Error::Module(e.into()))?;
        store.set_fuel(START_FUEL).map_err(Error::Module)?;
        let instance = linker.instantiate_and_start(&mut store, &module).map_err(Error::Module)?;

        let exported = |store: &Store<GuestLimits>, name| instance.get_func(store, name).is_some();
        let messages = EVENTS.iter().map(|(_, name, _)| *name).chain(OTHERS);
        let messages: Vec<_> = messages.filter(|name| exported(&store, name)).collect();
        let find = |name| Ok((name, function(&store, &instance, name)?));
        let mut guest = Self {
            memory: instance.get_memory(&store, "memory").ok_or(Error::NoExport("memory"))?,
            malloc: function(&store, &instance, MALLOC)?,
            free: function(&store, &instance, FREE)?,
            functions: messages.into_iter().map(find).collect::<Result<_, Error>>()?,
            store,
        };
        if exported(&guest.store, INITIALIZE) {
            let initialize = function(&guest.store, &instance, INITIALIZE)?;
            match guest.run(INITIALIZE, initialize, ()) {
                // Some compilers end the initialization so.
                Err(Error::Exit { code: 0, .. }) => {}
                result => result?,
            }
        }
        let version = function(&guest.store, &instance, API_VERSION)?;
        match guest.run(API_VERSION, version, ())? {
            SUPPORTED_API => Ok(guest),
            other => Err(Error::ApiVersion(other)),
        }
    }

    /// Returns the functions of the plugin that the module exports.
    pub(crate) fn exports(&self) -> BTreeSet<Function> {
        self.functions.keys().copied().collect()
    }

    /// Calls a function with an encoded message. The call takes at most `limit` altogether.
    ///
    /// # Errors
    /// The guest trapped, exceeded a limit, or broke the rules of the interface: it cannot be
    /// called again.
    pub(crate) fn call(
        &mut self,
        name: Function,
        request: &[u8],
        limit: Duration,
    ) -> Result<GuestReply, Error> {
        self.store.data_mut().begin(limit);
        let function = *self.functions.get(name).ok_or(Error::NoExport(name))?;
        // At most the size of a message.
        let size = request.len() as u32;
        let pointer = if size == 0 { 0 } else { self.run(MALLOC, self.malloc, size)? };
        if self.memory.write(&mut self.store, pointer as usize, request).is_err() {
            return Err(Error::OutOfBounds { function: MALLOC, pointer, size });
        }
        let packed = self.run(name, function, (pointer, size))?;
        let (reply, size) = ((packed >> 32) as u32, packed as u32 & !IS_ERROR);
        let range = reply as usize..reply as usize + size as usize;
        let bytes = self.memory.data(&self.store).get(range).map(<[u8]>::to_vec);
        let bytes = bytes.ok_or(Error::OutOfBounds { function: name, pointer: reply, size })?;
        for allocated in [reply, pointer].into_iter().filter(|pointer| *pointer != 0) {
            self.run(FREE, self.free, allocated)?;
        }
        Ok(match packed as u32 & IS_ERROR {
            0 => GuestReply::Message(bytes),
            _ => GuestReply::Refused(String::from_utf8_lossy(&bytes).into_owned()),
        })
    }

    /// Runs a function, slice by slice, until it returns or the time of the call is up.
    fn run<P: WasmParams, R: WasmResults>(
        &mut self,
        name: Function,
        function: TypedFunc<P, R>,
        parameters: P,
    ) -> Result<R, Error> {
        let failed = |store: &Store<GuestLimits>, e: &wasmi::Error| ended(store, name, e);
        self.store.set_fuel(SLICE).map_err(Error::Module)?;
        let mut call = function.call_resumable(&mut self.store, parameters);
        loop {
            call = match call.map_err(|e| failed(&self.store, &e))? {
                TypedResumableCall::Finished(results) => return Ok(results),
                TypedResumableCall::HostTrap(trap) => {
                    return Err(failed(&self.store, trap.host_error()));
                }
                TypedResumableCall::OutOfFuel(paused) => {
                    if self.store.data().left().is_none() {
                        let limit = self.store.data().time;
                        return Err(Error::Timeout { function: name, limit });
                    }
                    // An instruction on much memory needs more than a slice.
                    let fuel = paused.required_fuel().max(SLICE);
                    self.store.set_fuel(fuel).map_err(Error::Module)?;
                    paused.resume(&mut self.store)
                }
            };
        }
    }
}

/// Returns an exported function of this type.
fn function<P: WasmParams, R: WasmResults>(
    store: &Store<GuestLimits>,
    instance: &Instance,
    name: Function,
) -> Result<TypedFunc<P, R>, Error> {
    instance.get_typed_func(store, name).map_err(|_| Error::NoExport(name))
}

/// Returns how a guest ended in `function`.
fn ended(store: &Store<GuestLimits>, function: Function, error: &wasmi::Error) -> Error {
    if store.data().left().is_none() {
        return Error::Timeout { function, limit: store.data().time };
    }
    match error.i32_exit_status() {
        Some(code) => Error::Exit { function, code },
        None if error.as_trap_code() == Some(TrapCode::GrowthOperationLimited) => {
            Error::Memory { function, limit: store.data().memory }
        }
        None => Error::Trap { function, cause: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::CONFIGURE;

    /// Memory of the guests of tests, in bytes.
    const MEMORY: usize = 1 << 20;

    /// Returns the text of a module: what every module exports, and `more`.
    fn text(more: &str) -> String {
        format!(
            "(module
               {more}
               (memory (export \"memory\") 1)
               (global $freed (mut i32) (i32.const 0))
               (func (export \"malloc\") (param i32) (result i32) (i32.const 1024))
               (func (export \"free\") (param i32)
                 (global.set $freed (i32.add (global.get $freed) (i32.const 1)))))"
        )
    }

    const VERSION: &str = "(func (export \"plugin_api_version\") (result i64) (i64.const 1))";

    /// Never returns.
    const ENDLESS: &str = "(loop $again (br $again)) (unreachable)";

    /// Never returns, and needs minutes for its first slice of fuel.
    const ENDLESS_HOST_CALLS: &str = "(loop $again
        (drop (call $random (i32.const 0) (i32.const 65536))) (br $again)) (unreachable)";

    fn guest(more: &str) -> Result<Guest, Error> {
        let module = wat::parse_str(text(more)).unwrap_or_else(|e| panic!("{e}: {more}"));
        Guest::new(&module, MEMORY)
    }

    /// Time limit of calls that return; a loaded machine may be slow.
    const LONG: Duration = Duration::from_secs(60);

    /// Calls a function of these instructions with the request `abc`.
    fn call(instructions: &str) -> Result<GuestReply, Error> {
        let function = format!(
            "(import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
             (import \"wasi_snapshot_preview1\" \"path_open\" (func $open (param i32 i32 i32 i32
               i32 i64 i64 i32 i32) (result i32)))
             (import \"wasi_snapshot_preview1\" \"random_get\"
               (func $random (param i32 i32) (result i32)))
             (import \"env\" \"log\" (func $log (param i32 i32) (result i64)))
             {VERSION}
             (func (export \"plugin_configure\") (param $pointer i32) (param $size i32)
               (result i64) {instructions})"
        );
        let is_endless = [ENDLESS, ENDLESS_HOST_CALLS].contains(&instructions);
        let limit = if is_endless { Duration::from_millis(100) } else { LONG };
        guest(&function)?.call(CONFIGURE, b"abc", limit)
    }

    fn error(result: Result<impl std::fmt::Debug, Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_reply_has_pointer_and_size_in_one_number_and_a_bit_for_errors() {
        let message = |bytes: &[u8]| Ok(GuestReply::Message(bytes.to_vec()));
        let check = |instructions: &str, expected: Result<GuestReply, ()>| {
            assert_eq!(call(instructions).map_err(|e| panic!("{e}")), expected, "{instructions}");
        };
        check("(i64.const 0)", message(b""));
        check("(i64.const 0x400_0000_0003)", message(b"abc"));
        check("(i64.const 0x401_8000_0001)", Ok(GuestReply::Refused("b".into())));
        // The request is passed by address and size.
        let echo = "(i64.or (i64.shl (i64.extend_i32_u (local.get $pointer)) (i64.const 32))
                            (i64.extend_i32_u (local.get $size)))";
        check(echo, message(b"abc"));
    }

    #[test]
    fn request_and_reply_are_freed() {
        let function = format!(
            "{VERSION}
             (func (export \"plugin_configure\") (param i32 i32) (result i64)
               (i64.const 0x800_0000_0001))
             (func (export \"plugin_shutdown\") (param i32 i32) (result i64)
               (i32.store8 (i32.const 0) (global.get $freed)) (i64.const 0x1))"
        );
        let mut guest = guest(&function).unwrap();
        guest.call(CONFIGURE, b"abc", LONG).unwrap();
        let freed = guest.call("plugin_shutdown", b"", LONG).unwrap();
        assert_eq!(freed, GuestReply::Message(vec![2]));
        // Nothing is freed that has the address 0.
        let freed = guest.call("plugin_shutdown", b"", LONG).unwrap();
        assert_eq!(freed, GuestReply::Message(vec![2]));
    }

    #[test]
    fn a_guest_that_breaks_a_limit_or_a_rule_ends_with_the_reason() {
        for (instructions, expected) in [
            (ENDLESS, "did not return within 100ms, module ended"),
            (ENDLESS_HOST_CALLS, "did not return within 100ms, module ended"),
            (
                "(loop $l (drop (memory.grow (i32.const 1))) (br $l)) (unreachable)",
                "exceeded the memory limit of 1 MiB, module ended",
            ),
            ("(unreachable)", "trapped: wasm `unreachable` instruction executed"),
            ("(call $exit (i32.const 7)) (i64.const 0)", "exited with code 7"),
            (
                "(i64.const 0xffff_0000_0010)",
                "returned 16 bytes at 0xffff, outside of the guest's memory",
            ),
            (
                "(call $log (i32.const 65535) (i32.const 2))",
                "trapped: address outside of the guest's memory",
            ),
            ("(call $log (local.get $pointer) (i32.const 2))", "message for log is malformed"),
        ] {
            let error = error(call(instructions));
            assert!(error.starts_with(CONFIGURE) && error.contains(expected), "{error}");
        }
    }

    #[test]
    fn functions_of_wasi_for_files_fail_without_an_end_of_the_guest() {
        let open = "(i64.extend_i32_u (call $open (i32.const 3) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 0)))";
        let nosys = vec![0; 52];
        assert_eq!(call(open).unwrap(), GuestReply::Message(nosys));
    }

    #[test]
    fn a_sleep_ends_with_the_time_of_the_call() {
        // A subscription of the monotonic clock in 1000 s.
        let function = format!(
            "(import \"wasi_snapshot_preview1\" \"poll_oneoff\"
               (func $poll (param i32 i32 i32 i32) (result i32)))
             {VERSION}
             (func (export \"plugin_configure\") (param i32 i32) (result i64)
               (i32.store (i32.const 16) (i32.const 1))
               (i64.store (i32.const 24) (i64.const 1_000_000_000_000))
               (i64.extend_i32_u (call $poll (i32.const 0) (i32.const 256) (i32.const 1)
                 (i32.const 512))))"
        );
        let mut guest = guest(&function).unwrap();
        let error = error(guest.call(CONFIGURE, b"", Duration::from_millis(50)));
        assert!(error.contains("did not return within 50ms"), "{error}");
    }

    #[test]
    fn a_module_that_does_not_fit_is_invalid() {
        let check = |more: &str, expected: &str| {
            let error = error(guest(more).map(|_| ()));
            assert!(error.contains(expected), "{error}");
        };
        check("", "does not export plugin_api_version");
        check(&VERSION.replace("const 1", "const 2"), "plugin API version of the module is 2");
        check(&VERSION.replace("i64", "i32"), "does not export plugin_api_version");
        check(&format!("(import \"env\" \"run\" (func)) {VERSION}"), "run");
        let start = format!("{VERSION} (func $start (loop $l (br $l))) (start $start)");
        check(&start, "invalid module: ");
        let initialize = format!("{VERSION} (func (export \"_initialize\") (unreachable))");
        check(&initialize, "_initialize trapped: ");
        assert!(error(Guest::new(b"\0asm", MEMORY).map(|_| ())).contains("invalid module"));
        let large = text(VERSION).replace("\"memory\") 1)", "\"memory\") 17)");
        let large = Guest::new(&wat::parse_str(large).unwrap(), MEMORY).map(|_| ());
        let large = error(large);
        assert!(large.contains("denied to allocate or grow the linear memory"), "{large}");
    }
}
