//! WASI preview 1, as far as a guest without files, arguments, variables and network needs it:
//! clocks, random numbers, sleep, exit, and output to the plugin's log.
//!
//! The runtimes of Go and Rust import these functions whether or not the plugin uses them. All
//! others, which are about what the guest does not have, return an error. The crates that implement
//! the rest (`wasmi_wasi`, `wasi-common`) have sixty dependencies for it. Numbers and layouts are
//! those of `witx/wasi_snapshot_preview1.witx` of WebAssembly/WASI.

use crate::limits::GuestLimits;
use crate::memory::{read, read_u32, read_u64, write};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::BTreeSet;
use std::io::{Write, stderr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wasmi::errors::LinkerError;
use wasmi::{Caller, Error, ExternType, Linker, Module, Val, ValType};

/// Name of the module that the functions are imported from.
const MODULE: &str = "wasi_snapshot_preview1";

/// `errno`: none.
const SUCCESS: i32 = 0;
/// `errno`: bad file descriptor.
const BADF: i32 = 8;
/// `errno`: invalid argument.
const INVAL: i32 = 28;
/// `errno`: input or output failed.
const IO: i32 = 29;
/// `errno`: the function is not supported.
const NOSYS: i32 = 52;

/// `clockid`: the time of day.
const REALTIME: u32 = 0;
/// `clockid`: a clock that is never set.
const MONOTONIC: u32 = 1;

/// `filetype`: character device.
const CHARACTER_DEVICE: u8 = 2;
/// `rights`: read, and write.
const RIGHTS: u64 = 1 << 1 | 1 << 6;

/// `eventtype`: a clock has reached a time.
const CLOCK: u8 = 0;
/// `subclockflags`: the time is absolute.
const ABSOLUTE: u32 = 1;
/// Size of a subscription in bytes.
const SUBSCRIPTION: u32 = 48;
/// Size of an event in bytes.
const EVENT: u32 = 32;
/// Limit of subscriptions of one call; the runtimes of languages make two.
const MAX_SUBSCRIPTIONS: u32 = 64;
/// Limit of random bytes of one call.
const MAX_RANDOM: u32 = 1 << 20;
/// Limit of buffers of one write, as Linux has it.
const MAX_BUFFERS: u32 = 1024;

/// Defines the functions that the module imports.
pub(crate) fn define(linker: &mut Linker<GuestLimits>, module: &Module) -> Result<(), LinkerError> {
    let mut defined = BTreeSet::new();
    // A module may import a function more than once.
    let mut is_first = |name: &str| defined.insert(name.to_owned());
    for import in module.imports().filter(|import| import.module() == MODULE) {
        if !is_first(import.name()) {
            continue;
        }
        // Another type is an error of the instantiation.
        if let ExternType::Func(ty) = import.ty() {
            match import.name() {
                "args_get" | "environ_get" => linker.func_wrap(MODULE, import.name(), empty)?,
                "args_sizes_get" | "environ_sizes_get" => {
                    linker.func_wrap(MODULE, import.name(), empty_sizes)?
                }
                "clock_res_get" => linker.func_wrap(MODULE, import.name(), clock_resolution)?,
                "clock_time_get" => linker.func_wrap(MODULE, import.name(), clock_time)?,
                "fd_fdstat_get" => linker.func_wrap(MODULE, import.name(), descriptor)?,
                "fd_read" => linker.func_wrap(MODULE, import.name(), read_nothing)?,
                "fd_write" => linker.func_wrap(MODULE, import.name(), write_output)?,
                "poll_oneoff" => linker.func_wrap(MODULE, import.name(), poll)?,
                "proc_exit" => linker.func_wrap(MODULE, import.name(), exit)?,
                "random_get" => linker.func_wrap(MODULE, import.name(), random)?,
                "sched_yield" => linker.func_wrap(MODULE, import.name(), || SUCCESS)?,
                name => {
                    // No descriptor is one of files, directories or sockets.
                    let error = if name.starts_with("fd_") { BADF } else { NOSYS };
                    let is_code = ty.results() == [ValType::I32];
                    linker.func_new(MODULE, name, ty.clone(), move |_, _, results| {
                        match (is_code, results) {
                            (true, [code]) => *code = Val::I32(error),
                            _ => return Err(Error::new("function of WASI is not supported")),
                        }
                        Ok(())
                    })?
                }
            };
        }
    }
    Ok(())
}

type Guest<'a> = Caller<'a, GuestLimits>;

/// Lists no arguments or variables.
fn empty(_: Guest<'_>, _list: u32, _bytes: u32) -> i32 {
    SUCCESS
}

fn empty_sizes(mut guest: Guest<'_>, count: u32, size: u32) -> Result<i32, Error> {
    write(&mut guest, count, &[0; 4])?;
    write(&mut guest, size, &[0; 4])?;
    Ok(SUCCESS)
}

fn clock_resolution(mut guest: Guest<'_>, clock: u32, pointer: u32) -> Result<i32, Error> {
    if clock > MONOTONIC {
        return Ok(INVAL);
    }
    write(&mut guest, pointer, &1u64.to_le_bytes())?;
    Ok(SUCCESS)
}

fn clock_time(
    mut guest: Guest<'_>,
    clock: u32,
    _precision: u64,
    pointer: u32,
) -> Result<i32, Error> {
    let Some(now) = now(clock) else { return Ok(INVAL) };
    write(&mut guest, pointer, &nanoseconds(now).to_le_bytes())?;
    Ok(SUCCESS)
}

/// Returns the time of a clock; `None` if there is no such clock.
fn now(clock: u32) -> Option<Duration> {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    match clock {
        REALTIME => Some(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
        // Not 0, which the runtime of Go takes for a broken clock.
        MONOTONIC => Some(START.get_or_init(Instant::now).elapsed() + Duration::from_millis(1)),
        _ => None,
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Describes standard input, output and error as terminals, so that nothing buffers output.
fn descriptor(mut guest: Guest<'_>, fd: u32, pointer: u32) -> Result<i32, Error> {
    if fd > 2 {
        return Ok(BADF);
    }
    let mut stat = [0; 24];
    stat[0] = CHARACTER_DEVICE;
    stat[8..16].copy_from_slice(&RIGHTS.to_le_bytes());
    write(&mut guest, pointer, &stat)?;
    Ok(SUCCESS)
}

/// Standard input is empty.
fn read_nothing(
    mut guest: Guest<'_>,
    fd: u32,
    _buffers: u32,
    _count: u32,
    read: u32,
) -> Result<i32, Error> {
    if fd != 0 {
        return Ok(BADF);
    }
    write(&mut guest, read, &[0; 4])?;
    Ok(SUCCESS)
}

/// Writes standard output and error to the plugin's log.
fn write_output(
    mut guest: Guest<'_>,
    fd: u32,
    buffers: u32,
    count: u32,
    written: u32,
) -> Result<i32, Error> {
    if fd != 1 && fd != 2 {
        return Ok(BADF);
    }
    if count > MAX_BUFFERS {
        return Ok(INVAL);
    }
    let mut total = 0u32;
    for number in 0..count {
        let entry = buffers.saturating_add(number * 8);
        let (pointer, size) =
            (read_u32(&guest, entry)?, read_u32(&guest, entry.saturating_add(4))?);
        if stderr().write_all(read(&guest, pointer, size)?).is_err() {
            return Ok(IO);
        }
        total = total.saturating_add(size);
    }
    write(&mut guest, written, &total.to_le_bytes())?;
    Ok(SUCCESS)
}

fn random(mut guest: Guest<'_>, pointer: u32, size: u32) -> Result<i32, Error> {
    if size > MAX_RANDOM {
        return Ok(INVAL);
    }
    let mut bytes = vec![0; size as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Ok(IO),
        }
    }
    write(&mut guest, pointer, &bytes)?;
    Ok(SUCCESS)
}

fn exit(_: Guest<'_>, code: u32) -> Result<(), Error> {
    Err(Error::i32_exit(code as i32))
}

/// Waits for the first of the clocks, at most until the end of the call in progress. Subscriptions
/// of descriptors fail, since none can be waited for.
fn poll(
    mut guest: Guest<'_>,
    subscriptions: u32,
    events: u32,
    count: u32,
    ready: u32,
) -> Result<i32, Error> {
    if count == 0 || count > MAX_SUBSCRIPTIONS {
        return Ok(INVAL);
    }
    // User data, kind, and the time that is left until the event.
    let mut subscribed = Vec::new();
    for number in 0..count {
        let at = subscriptions.saturating_add(number * SUBSCRIPTION);
        let user_data = read_u64(&guest, at)?;
        let kind = read(&guest, at.saturating_add(8), 1)?[0];
        let clock = read_u32(&guest, at.saturating_add(16))?;
        let timeout = Duration::from_nanos(read_u64(&guest, at.saturating_add(24))?);
        let is_absolute = read_u32(&guest, at.saturating_add(40))? & ABSOLUTE != 0;
        let left = match (kind, now(clock)) {
            (CLOCK, Some(now)) if is_absolute => Ok(timeout.saturating_sub(now)),
            (CLOCK, Some(_)) => Ok(timeout),
            (CLOCK, None) => Err(INVAL),
            _ => Err(BADF),
        };
        subscribed.push((user_data, kind, left));
    }
    let first = subscribed.iter().map(|(.., left)| left.unwrap_or_default()).min();
    let pause = first.unwrap_or_default();
    let left = guest.data().left().unwrap_or_default();
    std::thread::sleep(pause.min(left));
    if pause >= left {
        return Err(Error::new("the guest sleeps longer than the call may take"));
    }
    let mut number = 0u32;
    for (user_data, kind, left) in subscribed {
        if left.is_ok_and(|left| left > pause) {
            continue;
        }
        let mut event = [0; EVENT as usize];
        event[..8].copy_from_slice(&user_data.to_le_bytes());
        event[8..10].copy_from_slice(&(left.err().unwrap_or(SUCCESS) as u16).to_le_bytes());
        event[10] = kind;
        write(&mut guest, events.saturating_add(number * EVENT), &event)?;
        number += 1;
    }
    write(&mut guest, ready, &number.to_le_bytes())?;
    Ok(SUCCESS)
}
