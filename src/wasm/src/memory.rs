//! Access to the memory of a WebAssembly module for the functions that the host offers it. It fails
//! once the time of the call is up: fuel counts the module's own instructions, and one of them can
//! call a function of the host that takes seconds.

use crate::limits::GuestLimits;
use wasmi::{Caller, Error, Extern, Memory};

/// Returns the bytes at an address.
///
/// # Errors
/// The bytes are outside of the guest's memory, or the time of the call is up.
pub(crate) fn read<'a>(
    caller: &'a Caller<'_, GuestLimits>,
    pointer: u32,
    size: u32,
) -> Result<&'a [u8], Error> {
    let (begin, size) = (pointer as usize, size as usize);
    memory(caller)?.data(caller).get(begin..begin + size).ok_or_else(outside)
}

/// Returns the number at an address.
///
/// # Errors
/// As for [`read`].
pub(crate) fn read_u32(caller: &Caller<'_, GuestLimits>, pointer: u32) -> Result<u32, Error> {
    let bytes = read(caller, pointer, 4)?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Returns the number at an address.
///
/// # Errors
/// As for [`read`].
pub(crate) fn read_u64(caller: &Caller<'_, GuestLimits>, pointer: u32) -> Result<u64, Error> {
    let low = read_u32(caller, pointer)?;
    let high = read_u32(caller, pointer.checked_add(4).ok_or_else(outside)?)?;
    Ok(u64::from(high) << 32 | u64::from(low))
}

/// Writes bytes to an address.
///
/// # Errors
/// As for [`read`].
pub(crate) fn write(
    caller: &mut Caller<'_, GuestLimits>,
    pointer: u32,
    bytes: &[u8],
) -> Result<(), Error> {
    let memory = memory(caller)?;
    memory.write(caller, pointer as usize, bytes).map_err(|_| outside())
}

fn memory(caller: &Caller<'_, GuestLimits>) -> Result<Memory, Error> {
    if caller.data().left().is_none() {
        return Err(Error::new("the time of the call is up"));
    }
    let memory = caller.get_export("memory").and_then(Extern::into_memory);
    memory.ok_or_else(|| Error::new("the module does not export its memory"))
}

fn outside() -> Error {
    Error::new("address outside of the guest's memory")
}
