//! The configuration file, and the texts in it: no panic, and errors that point into the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri_config::{Config, parse_duration};
use nri_locate::NridOwner;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = Config::parse(text) {
        let lines: Vec<&str> = text.split('\n').collect();
        let line = lines.get(error.line - 1);
        // The column behind the last character is where something is missing.
        assert!(line.is_some_and(|l| error.column <= l.chars().count() + 1), "{error}");
        assert!(!error.message.contains('\n'), "{error}");
    }
    if let Ok(duration) = parse_duration(text) {
        // Its own notation is read as well, if it has no sign that ours has not.
        let again =
            parse_duration(&format!("{}s{}ns", duration.as_secs(), duration.subsec_nanos()));
        assert!(again.is_ok(), "{duration:?}");
    }
    let _ = NridOwner::of(text, 0, None).state_dir();
});
