//! Short file names for texts that are too long for one.

/// Returns the FNV-1a digest of a text, in hexadecimal: 16 characters. It is no secure digest: a
/// collision must give no advantage to whoever chooses the text.
pub(crate) fn digest(text: &[u8]) -> String {
    let digest = text.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Not by `format!`, of which short calls of the wrapper would load the code.
    (0..16)
        .rev()
        .filter_map(|place| char::from_digit((digest >> (4 * place)) as u32 & 15, 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_reference() {
        // http://www.isthe.com/chongo/tech/comp/fnv/
        assert_eq!(digest(b""), "cbf29ce484222325");
        assert_eq!(digest(b"foobar"), "85944171f73967e8");
    }
}
