//! Verbs of the low-level runtimes by name.

/// Every verb of runc, crun and youki, and whether plugins receive an event for the verb. The names
/// distinguish a verb from the value of an unknown flag.
const KNOWN: [(&str, bool); 20] = [
    ("checkpoint", false),
    ("create", true),
    ("delete", true),
    ("events", false),
    ("exec", false),
    ("features", false),
    ("info", false),
    ("kill", false),
    ("list", false),
    ("mounts", false),
    ("pause", false),
    ("ps", false),
    ("restore", true),
    ("resume", false),
    ("run", true),
    ("spec", false),
    ("start", true),
    ("state", false),
    ("update", true),
    ("help", false),
];

/// Whether any runtime has a verb of this name.
pub fn is_known(word: &[u8]) -> bool {
    KNOWN.iter().any(|(name, _)| name.as_bytes() == word)
}

/// Whether plugins receive an event for the verb of this name.
pub fn carries_event(word: &[u8]) -> bool {
    KNOWN.iter().any(|(name, carries)| *carries && name.as_bytes() == word)
}
