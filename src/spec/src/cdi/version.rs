//! Versions of the CDI format, and the features that each introduced.
//!
//! A specification that uses features newer than its declared version is refused. Every other
//! implementation of the format refuses it, too, so a file works either with all implementations or
//! with none.

use super::edits::CdiEdits;
use super::error::InvalidCdiSpec;

const VERSIONS: [&str; 10] =
    ["0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"];

/// Earliest accepted version. 0.1.0 and 0.2.0 are always refused, because the check does not
/// know which features 0.3.0 added.
const EARLIEST: &str = "0.3.0";

/// Parts of a specification that decide which version of the format the specification needs.
#[derive(Debug, Default)]
pub(super) struct VersionedFeatures<'a> {
    /// Edits of the file and of all devices.
    pub(super) edits: Vec<&'a CdiEdits>,
    /// Names of all devices.
    pub(super) names: Vec<&'a str>,
    /// Whether the file or a device has annotations.
    pub(super) has_annotations: bool,
    /// `vendor/class`.
    pub(super) kind: &'a str,
}

/// Refuses a specification that uses features newer than its `declared` version.
pub(super) fn check(
    declared: &str,
    features: &VersionedFeatures<'_>,
) -> Result<(), InvalidCdiSpec> {
    let position = |version: &str| VERSIONS.iter().position(|v| *v == version);
    let version = declared.strip_prefix('v').unwrap_or(declared);
    let position_of_declared = position(version)
        .ok_or_else(|| InvalidCdiSpec::Version { version: declared.to_owned() })?;
    match features
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

impl VersionedFeatures<'_> {
    /// Each feature with the first version that has it, and whether the specification uses it;
    /// newest version first.
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
            ("annotations", "0.6.0", self.has_annotations),
            ("a dot in the class", "0.6.0", class.contains('.')),
            (
                "device names with a leading digit, or hostPath of device nodes",
                "0.5.0",
                self.names.iter().any(|n| n.starts_with(|c: char| c.is_ascii_digit()))
                    || any(&|e| e.device_nodes.iter().any(|d| !d.host_path.is_empty())),
            ),
            ("type of mounts", "0.4.0", any(&|e| e.mounts.iter().any(|m| !m.kind.is_empty()))),
            // Every specification has devices, so this entry refuses versions before `EARLIEST`.
            ("devices", EARLIEST, true),
        ]
    }
}
