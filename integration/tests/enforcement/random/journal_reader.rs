//! Reads a journal entry by entry, because reading a long journal from its start for each entry
//! would be slow.

use nri_integration::{Journal, wait_until};
use serde_json::Value;
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

/// A reader of one journal.
pub(super) struct JournalReader {
    journal: Journal,
    /// Position in the file, in bytes.
    position: u64,
    /// Bytes that were read and not yet parsed.
    unparsed: Vec<u8>,
}

impl JournalReader {
    pub(super) fn new(journal: &Journal) -> Self {
        Self { journal: journal.clone(), position: 0, unparsed: Vec::new() }
    }

    /// Waits for the next entry of an event, and skips entries of other events.
    pub(super) fn next(&mut self, event: &str) -> Value {
        let what = format!("{event} in {:?}", self.journal.path());
        wait_until(what, || {
            self.read();
            while let Some(end) = self.unparsed.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.unparsed.drain(..=end).collect();
                let entry: Value = serde_json::from_slice(&line).expect("a journal line is JSON");
                if entry["event"] == event {
                    return Some(entry);
                }
            }
            None
        })
    }

    /// Reads the bytes that were appended since the previous call.
    fn read(&mut self) {
        let Ok(mut file) = File::open(self.journal.path()) else { return };
        file.seek(SeekFrom::Start(self.position)).expect("the journal is seekable");
        let read = file.read_to_end(&mut self.unparsed).expect("the journal is readable");
        self.position += read as u64;
    }
}
