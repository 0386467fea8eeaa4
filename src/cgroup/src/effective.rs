//! Values of control files, compared in every notation that the kernel uses.

use std::collections::BTreeSet;

/// Content of a control file once a value is effective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectiveValue {
    /// One of these texts.
    OneOf(Vec<String>),
    /// A number of bytes, which the kernel rounds down to whole pages; `None` means no limit.
    Bytes(Option<u64>),
    /// A set of numbers, as a list of ranges.
    Set(String),
    /// The line of `key` continues with one of the texts `rest`; an empty text means that there is
    /// no line of `key`.
    Line {
        /// First word.
        key: String,
        /// Alternatives for the rest of the line.
        rest: Vec<String>,
    },
    /// The line of `key` has the word `name=value` (`rbps=1024`). A missing line means `max` for
    /// every name.
    Word {
        /// First word.
        key: String,
        /// Name before the `=`.
        name: String,
        /// Value after the `=`.
        value: String,
    },
    /// A line with exactly this text.
    Entry(String),
    /// A rule of `devices.list`, for the device or for all devices, that allows at least `access`.
    Device {
        /// Type and numbers: `c 1:3`.
        device: String,
        /// Letters of `rwm`.
        access: String,
    },
}

/// A number of bytes above this bound means no limit in cgroup v1: there the kernel shows
/// `i64::MAX`, rounded down to whole pages of at most 1 MiB.
const UNLIMITED: u64 = i64::MAX as u64 - (1 << 20);

impl EffectiveValue {
    /// A single text.
    pub(crate) fn text(text: impl ToString) -> Self {
        Self::OneOf(vec![text.to_string()])
    }

    /// Whether the value is all that the file has.
    pub(crate) fn is_whole_file(&self) -> bool {
        matches!(self, Self::OneOf(_) | Self::Bytes(_) | Self::Set(_))
    }

    /// Whether the content of the file shows the value. `page`: size of a memory page in bytes.
    pub fn matches(&self, content: &str, page: u64) -> bool {
        let content = content.trim();
        match self {
            Self::OneOf(texts) => texts.iter().any(|t| same_words(t, content)),
            Self::Bytes(None) => {
                content == "max"
                    || content.parse::<u64>().is_ok_and(|n| n > UNLIMITED)
                    || content == "-1"
            }
            Self::Bytes(Some(bytes)) => content
                .parse::<u64>()
                .is_ok_and(|n| n == bytes - bytes % page.max(1) || n == *bytes),
            Self::Set(list) => match (parse_set(list), parse_set(content)) {
                (Some(requested), Some(effective)) => requested == effective,
                _ => false,
            },
            Self::Line { key, rest } => {
                let found = line(content, key).unwrap_or_default();
                rest.iter().any(|r| same_words(r, found))
            }
            Self::Word { key, name, value } => {
                let Some(line) = line(content, key) else { return value == "max" };
                line.split_whitespace()
                    .filter_map(|w| w.split_once('='))
                    .any(|(n, v)| n == name && v == value)
            }
            Self::Entry(entry) => content.lines().any(|line| line.trim() == entry),
            Self::Device { device, access } => content.lines().any(|line| {
                let Some((rule, granted)) = line.trim().rsplit_once(' ') else { return false };
                (rule == device || rule == "a *:*") && access.chars().all(|a| granted.contains(a))
            }),
        }
    }

    /// The part of the file's content that is compared, for messages.
    pub fn compared<'a>(&self, content: &'a str) -> &'a str {
        let content = content.trim();
        match self {
            Self::Line { key, .. } | Self::Word { key, .. } => line(content, key).unwrap_or(""),
            _ => content,
        }
    }
}

impl std::fmt::Display for EffectiveValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OneOf(texts) => f.write_str(&texts.join(" or ")),
            Self::Bytes(None) => f.write_str("no limit"),
            Self::Bytes(Some(bytes)) => write!(f, "{bytes}"),
            Self::Set(text) | Self::Entry(text) => f.write_str(text),
            Self::Line { key, rest } => write!(f, "{key} {}", rest.join(" or ")),
            Self::Word { key, name, value } => write!(f, "{key} {name}={value}"),
            Self::Device { device, access } => write!(f, "{device} {access}"),
        }
    }
}

fn same_words(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

/// The rest of the line that begins with `key`.
fn line<'a>(content: &'a str, key: &str) -> Option<&'a str> {
    content.lines().find_map(|line| {
        let (first, rest) = line.trim().split_once(char::is_whitespace)?;
        (first == key).then(|| rest.trim())
    })
}

/// Parses a list of ranges such as `0-2,5`; `None` if it is malformed or has a number above
/// [`MAX_NUMBER`].
pub(crate) fn parse_set(list: &str) -> Option<BTreeSet<u32>> {
    let mut set = BTreeSet::new();
    for part in list.trim().split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || last > MAX_NUMBER {
            return None;
        }
        set.extend(first..=last);
    }
    Some(set)
}

/// Largest number in a set. Linux supports 8192 CPUs and 1024 nodes; the bound keeps a parsed set
/// small, whatever a plugin requests.
const MAX_NUMBER: u32 = (1 << 16) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_match_every_notation_of_the_kernel() {
        let line = |key: &str, rest: &str| EffectiveValue::Line {
            key: key.into(),
            rest: vec![rest.into()],
        };
        let word = |value: &str| EffectiveValue::Word {
            key: "8:0".into(),
            name: "rbps".into(),
            value: value.into(),
        };
        let set = |list: &str| EffectiveValue::Set(list.into());
        let device =
            |access: &str| EffectiveValue::Device { device: "c 1:3".into(), access: access.into() };
        for (value, content, matches) in [
            (EffectiveValue::text(512), "512\n", true),
            (EffectiveValue::text(512), "1024\n", false),
            (EffectiveValue::text("max 100000"), "max  100000\n", true),
            (EffectiveValue::Bytes(Some(5000)), "4096\n", true),
            (EffectiveValue::Bytes(Some(5000)), "5000\n", true),
            (EffectiveValue::Bytes(Some(5000)), "8192\n", false),
            (EffectiveValue::Bytes(None), "9223372036854771712\n", true),
            (EffectiveValue::Bytes(None), "max\n", true),
            (EffectiveValue::Bytes(None), "4096\n", false),
            (set("0,1,2"), "0-2\n", true),
            (set("0-1"), "0\n", false),
            (set("0-99999999"), "0-99999999", false),
            (line("oom_kill_disable", "1"), "oom_kill_disable 1\nunder_oom 0\n", true),
            (line("oom_kill_disable", "1"), "oom_kill_disable 0\nunder_oom 0\n", false),
            (line("8:0", "100"), "8:16 100\n", false),
            (line("8:0", ""), "8:16 100\n", true),
            (line("8:0", ""), "8:0 100\n", false),
            (word("1024"), "8:0 rbps=1024 wbps=max\n", true),
            (word("1024"), "8:0 rbps=2048 wbps=max\n", false),
            (word("1024"), "", false),
            (word("max"), "8:16 rbps=1\n", true),
            (EffectiveValue::Entry("12".into()), "1\n12\n", true),
            (EffectiveValue::Entry("12".into()), "112\n", false),
            (device("rw"), "c 1:3 rwm\nc 5:1 r\n", true),
            (device("rw"), "c 1:3 r\n", false),
            (device("rw"), "a *:* rwm\n", true),
        ] {
            assert_eq!(value.matches(content, 4096), matches, "{value} {content:?}");
        }
    }
}
