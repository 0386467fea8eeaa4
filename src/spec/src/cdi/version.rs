//! Versions of the format, and the features of each.
//!
//! A specification that uses features newer than its declared version is refused, as by every other
//! implementation of the format, so that a file works with all of them or with none.

use super::edits::CdiEdits;
use super::error::InvalidCdiSpec;

const VERSIONS: [&str; 10] =
    ["0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"];

/// Earliest version of a usable specification: the features of older versions are not
/// distinguished.
const EARLIEST: &str = "0.3.0";

/// Features of a specification that depend on the version.
#[derive(Debug, Default)]
pub(super) struct Uses<'a> {
    /// CdiEdits of the file and of all devices.
    pub(super) edits: Vec<&'a CdiEdits>,
    /// Names of all devices.
    pub(super) names: Vec<&'a str>,
    /// Whether the file or a device has annotations.
    pub(super) annotations: bool,
    /// `vendor/class`.
    pub(super) kind: &'a str,
}

pub(super) fn check(declared: &str, uses: &Uses<'_>) -> Result<(), InvalidCdiSpec> {
    let position = |version: &str| VERSIONS.iter().position(|v| *v == version);
    let version = declared.strip_prefix('v').unwrap_or(declared);
    let position_of_declared = position(version)
        .ok_or_else(|| InvalidCdiSpec::Version { version: declared.to_owned() })?;
    match uses
        .needs()
        .into_iter()
        .find(|(_, needed, used)| *used && position(needed) > Some(position_of_declared))
    {
        None => Ok(()),
        Some((feature, needed, _)) => {
            Err(InvalidCdiSpec::NeedsVersion { declared: declared.to_owned(), feature, needed })
        }
    }
}

impl Uses<'_> {
    /// Feature, version, and whether it is used; newest first.
    fn needs(&self) -> [(&'static str, &'static str, bool); 10] {
        let any = |test: &dyn Fn(&CdiEdits) -> bool| self.edits.iter().any(|e| test(e));
        let rdt = |key: &str| any(&|e| e.intel_rdt.as_ref().is_some_and(|r| r.get(key).is_some()));
        let class = self.kind.split_once('/').map_or("", |(_, class)| class);
        [
            ("netDevices", "1.1.0", any(&|e| !e.net_devices.is_empty())),
            ("intelRdt.schemata", "1.1.0", rdt("schemata")),
            ("intelRdt.enableMonitoring", "1.1.0", rdt("enableMonitoring")),
            ("intelRdt", "0.7.0", any(&|e| e.intel_rdt.is_some())),
            ("additionalGids", "0.7.0", any(&|e| !e.additional_gids.is_empty())),
            ("annotations", "0.6.0", self.annotations),
            ("dot in the class", "0.6.0", class.contains('.')),
            (
                "device name with a leading digit, or hostPath of a device node",
                "0.5.0",
                self.names.iter().any(|n| n.starts_with(|c: char| c.is_ascii_digit()))
                    || any(&|e| e.device_nodes.iter().any(|d| !d.host_path.is_empty())),
            ),
            ("type of a mount", "0.4.0", any(&|e| e.mounts.iter().any(|m| !m.kind.is_empty()))),
            ("specification of devices", EARLIEST, true),
        ]
    }
}
