//! What a file is to hold, in all the ways in which the kernel may write it.

use std::collections::BTreeSet;

/// What a file is to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// One of these texts.
    OneOf(Vec<String>),
    /// A number of bytes, which the kernel cuts down to whole pages; `None`: no limit.
    Bytes(Option<u64>),
    /// A set of numbers, as a list of ranges.
    Set(String),
    /// A line that begins with this word and goes on with one of these texts; the empty text stands
    /// for no such line.
    Line {
        /// Its first word.
        key: String,
        /// What follows.
        rest: Vec<String>,
    },
    /// A line that begins with this word and has this among its further words (`rbps=1024`); no
    /// line counts as one that has all at `max`.
    Word {
        /// Its first word.
        key: String,
        /// The name before the `=`.
        name: String,
        /// The value behind it.
        value: String,
    },
    /// A line that is this, among others.
    Entry(String),
    /// A rule of `devices.list` that allows at least this, or one that allows everything.
    Device {
        /// Kind and numbers: `c 1:3`.
        device: String,
        /// Letters of `rwm`.
        access: String,
    },
}

/// No limit in version 1: the largest number of whole pages. Pages may be larger elsewhere, hence a
/// bound.
const NEARLY_ALL: u64 = i64::MAX as u64 - (1 << 20);

impl Expect {
    /// One text.
    pub(crate) fn text(text: impl ToString) -> Self {
        Self::OneOf(vec![text.to_string()])
    }

    /// Whether a file's content is right.
    pub fn holds(&self, content: &str, page: u64) -> bool {
        let content = content.trim();
        match self {
            Self::OneOf(texts) => texts.iter().any(|t| same_words(t, content)),
            Self::Bytes(None) => {
                content == "max"
                    || content.parse::<u64>().is_ok_and(|n| n > NEARLY_ALL)
                    || content == "-1"
            }
            Self::Bytes(Some(bytes)) => content
                .parse::<u64>()
                .is_ok_and(|n| n == bytes - bytes % page.max(1) || n == *bytes),
            Self::Set(list) => match (parse_set(list), parse_set(content)) {
                (Some(wanted), Some(found)) => wanted == found,
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

    /// What of a file's content is compared, for people.
    pub fn found<'a>(&self, content: &'a str) -> &'a str {
        let content = content.trim();
        match self {
            Self::Line { key, .. } | Self::Word { key, .. } => line(content, key).unwrap_or(""),
            _ => content,
        }
    }
}

impl std::fmt::Display for Expect {
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

/// What follows the key in its line.
fn line<'a>(content: &'a str, key: &str) -> Option<&'a str> {
    content.lines().find_map(|line| {
        let (first, rest) = line.trim().split_once(char::is_whitespace)?;
        (first == key).then(|| rest.trim())
    })
}

/// `0-2,5` as a set; none for what is no such list. More numbers than a machine has make no set, so
/// that a list cannot eat the memory.
fn parse_set(list: &str) -> Option<BTreeSet<u32>> {
    const MOST: u32 = 1 << 16;
    let mut set = BTreeSet::new();
    for part in list.trim().split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || last >= MOST {
            return None;
        }
        set.extend(first..=last);
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds() {
        let line =
            |key: &str, rest: &str| Expect::Line { key: key.into(), rest: vec![rest.into()] };
        let word = |value: &str| Expect::Word {
            key: "8:0".into(),
            name: "rbps".into(),
            value: value.into(),
        };
        let set = |list: &str| Expect::Set(list.into());
        let device =
            |access: &str| Expect::Device { device: "c 1:3".into(), access: access.into() };
        for (expect, content, holds) in [
            (Expect::text(512), "512\n", true),
            (Expect::text(512), "1024\n", false),
            (Expect::text("max 100000"), "max  100000\n", true),
            (Expect::Bytes(Some(5000)), "4096\n", true),
            (Expect::Bytes(Some(5000)), "5000\n", true),
            (Expect::Bytes(Some(5000)), "8192\n", false),
            (Expect::Bytes(None), "9223372036854771712\n", true),
            (Expect::Bytes(None), "max\n", true),
            (Expect::Bytes(None), "4096\n", false),
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
            (Expect::Entry("12".into()), "1\n12\n", true),
            (Expect::Entry("12".into()), "112\n", false),
            (device("rw"), "c 1:3 rwm\nc 5:1 r\n", true),
            (device("rw"), "c 1:3 r\n", false),
            (device("rw"), "a *:* rwm\n", true),
        ] {
            assert_eq!(expect.holds(content, 4096), holds, "{expect} {content:?}");
        }
    }
}
