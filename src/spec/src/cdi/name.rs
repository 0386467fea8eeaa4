//! Fully qualified device names: `vendor.com/class=name`.

use super::error::CdiError;
use std::fmt;

/// A valid device name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CdiDeviceName {
    /// `vendor.com/class`.
    pub kind: String,
    /// Name within the class.
    pub name: String,
}

impl CdiDeviceName {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<Self, CdiError> {
        let invalid = |why| CdiError::InvalidName { name: text.to_owned(), why };
        let (kind, name) =
            text.split_once('=').ok_or_else(|| invalid("is not of the form vendor/class=name"))?;
        check_kind(kind).map_err(invalid)?;
        check_device(name).map_err(invalid)?;
        Ok(Self { kind: kind.into(), name: name.into() })
    }
}

impl fmt::Display for CdiDeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kind, self.name)
    }
}

/// Checks a `vendor/class`. Vendor and class each begin with a letter, end with a letter or digit,
/// and may have `_`, `-`, `.` in between.
pub(super) fn check_kind(kind: &str) -> Result<(), &'static str> {
    let (vendor, class) = kind.split_once('/').ok_or("has no class")?;
    let starts_with_letter = |s: &str| s.starts_with(|c: char| c.is_ascii_alphabetic());
    if !starts_with_letter(vendor) || !is_word(vendor, "_-.") {
        return Err("has no valid vendor");
    }
    if !starts_with_letter(class) || !is_word(class, "_-.") {
        return Err("has no valid class");
    }
    Ok(())
}

/// Checks a device name. It begins and ends with a letter or digit, and may have `_`, `-`, `.`, `:`
/// in between.
pub(super) fn check_device(name: &str) -> Result<(), &'static str> {
    if is_word(name, "_-.:") { Ok(()) } else { Err("has no valid device name") }
}

fn is_word(text: &str, between: &str) -> bool {
    let is_letter_or_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    is_letter_or_digit(text.chars().next())
        && is_letter_or_digit(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || between.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_are_parsed_or_refused() {
        for good in ["vendor.com/class=0", "v/c=a:b", "V-1/c.d=gpu_0-1.2:3", "v/c=a"] {
            assert_eq!(CdiDeviceName::parse(good).unwrap().to_string(), good);
        }
        for (bad, why) in [
            ("", "is not of the form vendor/class=name"),
            ("v/c", "is not of the form vendor/class=name"),
            ("/dev/null", "is not of the form vendor/class=name"),
            ("v=a", "has no class"),
            ("1v/c=a", "has no valid vendor"),
            ("v-/c=a", "has no valid vendor"),
            ("-v/c=a", "has no valid vendor"),
            ("v/=a", "has no valid class"),
            ("v/c/d=a", "has no valid class"),
            ("v/c=", "has no valid device name"),
            ("v/c=a=b", "has no valid device name"),
            ("v/c=é", "has no valid device name"),
        ] {
            let expected = CdiError::InvalidName { name: bad.into(), why };
            assert_eq!(CdiDeviceName::parse(bad), Err(expected), "{bad}");
        }
    }
}
