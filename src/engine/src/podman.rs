//! Podman.

use crate::{Identity, Unreadable, unreadable};
use serde::Deserialize;

/// An entry of a list of containers/storage.
#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    metadata: Option<String>,
}

/// What libpod keeps in an entry's `metadata`, as JSON in a string.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Metadata {
    image_name: Option<String>,
    name: Option<String>,
}

/// Adds what a list of containers/storage says of this container; whether it is in that list.
///
/// # Errors
/// Bytes that are no such list; then nothing has changed.
pub fn complete(identity: &mut Identity, id: &str, list: &[u8]) -> Result<bool, Unreadable> {
    let entries: Vec<Entry> = unreadable::parse("list of containers", list, unreadable::LIST)?;
    let Some(entry) = entries.into_iter().find(|e| e.id == id) else { return Ok(false) };
    let metadata: Metadata = match entry.metadata.as_deref() {
        Some(text) if !text.is_empty() => {
            unreadable::parse("metadata of a container", text.as_bytes(), unreadable::ONE)?
        }
        _ => Metadata::default(),
    };
    let name = metadata.name.or_else(|| entry.names?.into_iter().next());
    if let Some(name) = name.filter(|n| !n.is_empty()) {
        identity.name = name;
    }
    if let Some(image) = metadata.image_name.filter(|i| !i.is_empty()) {
        identity.image = image;
    }
    Ok(true)
}
