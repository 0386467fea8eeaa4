//! Short file names for texts that are too long for one.

/// Returns the FNV-1a digest of a text. It is no secure digest: a collision must give no advantage
/// to whoever chooses the text.
pub(crate) fn of(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns a number in hexadecimal.
pub(crate) fn hexadecimal(number: u64) -> [u8; 16] {
    let mut shift = u64::BITS;
    [(); 16].map(|()| {
        shift -= 4;
        hexadecimal_digit((number >> shift) as u8)
    })
}

/// Returns the digit of the lower four bits.
pub(crate) fn hexadecimal_digit(bits: u8) -> u8 {
    match bits & 0xf {
        digit @ 0..=9 => b'0' + digit,
        digit => b'a' - 10 + digit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_reference() {
        // http://www.isthe.com/chongo/tech/comp/fnv/
        assert_eq!(&hexadecimal(of(b"")), b"cbf29ce484222325");
        assert_eq!(&hexadecimal(of(b"foobar")), b"85944171f73967e8");
    }
}
