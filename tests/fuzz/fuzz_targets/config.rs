//! The configuration file and the texts in it: the parsers do not panic, and errors have a position
//! in the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_config::Config;
use nri_locate::NridOwner;
use nri_values::{Letters, parse_duration, parse_size};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = Config::parse(text) {
        let lines: Vec<&str> = text.split('\n').collect();
        let line = lines.get(error.line - 1);
        // An error about missing text has the column after the last character.
        assert!(line.is_some_and(|l| error.column <= l.chars().count() + 1), "{error}");
        assert!(!error.message.contains('\n'), "{error}");
    }
    if let Ok(duration) = parse_duration(text) {
        // The value in seconds and nanoseconds is a valid duration, too.
        let again =
            parse_duration(&format!("{}s{}ns", duration.as_secs(), duration.subsec_nanos()));
        assert!(again.is_ok(), "{duration:?}");
    }
    if let Ok(size) = parse_size(text, Letters::Binary) {
        assert_eq!(parse_size(&format!("{size} B"), Letters::Decimal), Ok(size));
    }
    let _ = NridOwner::of(text, 0, None).state_dir();
});
