//! Kind and version of a low-level runtime, from the output of `--version`.

use std::fmt;

/// Low-level runtimes that the table of features covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// <https://github.com/opencontainers/runc>
    Runc,
    /// <https://github.com/containers/crun>
    Crun,
    /// <https://github.com/youki-dev/youki>
    Youki,
}

/// A version of a runtime. A release candidate sorts before its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    numbers: (u32, u32, u32),
    /// Number of the release candidate; `u32::MAX` for the release itself.
    candidate: u32,
}

/// A runtime with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// Kind; `None` for a runtime that the table does not cover.
    pub kind: Option<RuntimeKind>,
    /// Version; `None` if it cannot be parsed.
    pub version: Option<Version>,
}

impl Version {
    /// A release.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { numbers: (major, minor, patch), candidate: u32::MAX }
    }

    /// A release candidate.
    pub const fn candidate(major: u32, minor: u32, patch: u32, candidate: u32) -> Self {
        Self { numbers: (major, minor, patch), candidate }
    }

    /// Parses `1.2`, `1.2.3`, `v1.2.3-rc.1`, also with the suffixes of distributions and builds
    /// (`+ds1`, `-0ubuntu1`, `~rc3`, `.0.0.12-abcd`).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (numbers, rest) = text.split_at(end);
        let mut numbers = numbers.split('.').filter(|n| !n.is_empty()).map(str::parse);
        let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let patch = numbers.next().transpose().ok()?.unwrap_or(0);
        Some(Self { numbers: (major, minor, patch), candidate: candidate_of(rest) })
    }
}

/// Number of the release candidate in a suffix such as `-rc.1`, `-rc93` or `~rc1+ds1`; `u32::MAX`
/// for any other suffix.
fn candidate_of(suffix: &str) -> u32 {
    let Some(rest) = suffix.strip_prefix(['-', '~']).and_then(|s| s.strip_prefix("rc")) else {
        return u32::MAX;
    };
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or(0)
}

impl RuntimeVersion {
    /// Parses the output of `--version`: `NAME version VERSION` on the first line. A program that
    /// mentions a runtime on a later line is not that runtime.
    pub fn parse(output: &str) -> Self {
        let mut words = output.lines().next().unwrap_or_default().split_whitespace();
        let kind = match words.next().map(|name| name.trim_end_matches(':')) {
            Some("runc") => Some(RuntimeKind::Runc),
            Some("crun") => Some(RuntimeKind::Crun),
            Some("youki") => Some(RuntimeKind::Youki),
            _ => None,
        };
        Self { kind, version: kind.and_then(|_| words.find_map(Version::parse)) }
    }
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Runc => "runc",
            Self::Crun => "crun",
            Self::Youki => "youki",
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if self.candidate == u32::MAX { Ok(()) } else { write!(f, "-rc.{}", self.candidate) }
    }
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.version) {
            (None, _) => f.write_str("the runtime"),
            (Some(kind), None) => write!(f, "{kind}"),
            (Some(kind), Some(version)) => write!(f, "{kind} {version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_identifies_the_runtime() {
        for (output, expected) in [
            (
                "runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2-dev\n",
                "runc 1.1.5",
            ),
            ("runc version 1.4.0-rc.2+dev\n", "runc 1.4.0-rc.2"),
            ("runc version 1.0.0~rc93+ds1\n", "runc 1.0.0-rc.93"),
            ("runc version 1.1.12-0ubuntu3.1\n", "runc 1.1.12"),
            ("runc version 1.2.0-rc\n", "runc 1.2.0-rc.0"),
            ("runc version unknown\n", "runc"),
            ("crun version 1.8.1\ncommit: f8a096b\n", "crun 1.8.1"),
            ("crun version 1.21\n", "crun 1.21.0"),
            ("crun version 1.14.3.0.0.0.17-54f1\n", "crun 1.14.3"),
            ("youki version 0.7.0\n", "youki 0.7.0"),
            ("youki version: 0.3.3\n", "youki 0.3.3"),
            ("runsc version release-20240212.0\n", "the runtime"),
            ("NVIDIA Container Runtime version 1.14.3\n\nrunc version 1.1.4\n", "the runtime"),
            ("", "the runtime"),
            ("runc version 99999999999.1\n", "runc"),
        ] {
            assert_eq!(RuntimeVersion::parse(output).to_string(), expected, "{output}");
        }
    }

    #[test]
    fn release_candidates_sort_before_their_release() {
        let order = ["1.1.15", "1.2.0-rc.1", "1.2.0-rc.3", "1.2.0-rc.10", "1.2.0", "1.2.1", "1.10"];
        let parsed: Vec<_> = order.iter().map(|v| Version::parse(v).unwrap()).collect();
        assert!(parsed.is_sorted_by(|a, b| a < b), "{parsed:?}");
        assert_eq!(Version::parse("1.2.0-rc.1"), Some(Version::candidate(1, 2, 0, 1)));
    }
}
