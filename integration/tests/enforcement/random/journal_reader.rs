//! Reads a journal entry by entry, since a long one would be slow to read from the start each time.

use nri_integration::{Journal, wait_until};
use serde_json::Value;
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

/// A reader with its position in a journal.
pub(super) struct JournalReader {
    journal: Journal,
    at: u64,
    rest: Vec<u8>,
}

impl JournalReader {
    pub(super) fn new(journal: &Journal) -> Self {
        Self { journal: journal.clone(), at: 0, rest: Vec::new() }
    }

    /// Waits for the next entry of an event; skips others.
    pub(super) fn next(&mut self, event: &str) -> Value {
        let what = format!("{event} in {:?}", self.journal.path());
        wait_until(what, || {
            self.read();
            while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let entry: Value = serde_json::from_slice(&line).expect("a journal line is JSON");
                if entry["event"] == event {
                    return Some(entry);
                }
            }
            None
        })
    }

    fn read(&mut self) {
        let Ok(mut file) = File::open(self.journal.path()) else { return };
        file.seek(SeekFrom::Start(self.at)).expect("the journal is seekable");
        self.at += file.read_to_end(&mut self.rest).expect("the journal is readable") as u64;
    }
}
