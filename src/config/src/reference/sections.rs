//! Lists the sections of the configuration file.

use super::{section::Section, types::SectionDescription};

/// Returns the sections of the file, in the order of the reference.
pub fn sections() -> Vec<&'static SectionDescription> {
    let mut sections = Vec::new();
    crate::Config::describe(&mut sections);
    sections
}
