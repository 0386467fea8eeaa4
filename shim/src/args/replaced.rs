//! Arguments as bytes, and arguments with another value of an option.

use nri_args::options::ValuePosition;
use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

/// Returns the bytes of each argument.
pub(crate) fn bytes(arguments: &[OsString]) -> Vec<&[u8]> {
    arguments.iter().map(|argument| argument.as_bytes()).collect()
}

/// Returns the arguments with `value` in place of the value at a position.
pub(crate) fn with_value(
    arguments: &[OsString],
    (index, offset): ValuePosition,
    value: &[u8],
) -> Vec<OsString> {
    let mut arguments = arguments.to_vec();
    let mut argument = arguments[index].as_bytes()[..offset].to_vec();
    argument.extend_from_slice(value);
    arguments[index] = OsString::from_vec(argument);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn a_value_is_replaced_in_every_form_of_a_flag() {
        for (line, at, expected) in [
            ("--resources /f id", (1, 0), "--resources - id"),
            ("--resources=/f id", (0, 12), "--resources=- id"),
            ("-r/f id", (0, 2), "-r- id"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            assert_eq!(with_value(&words, at, b"-").join(OsStr::new(" ")), OsStr::new(expected));
        }
    }
}
