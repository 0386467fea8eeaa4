//! Annotations of a pod to the RDT settings of one of its containers. Reads annotations only; what
//! the settings mean is up to the runtime.

use std::collections::HashMap;

/// Domain of the annotations, which follows the name of the setting.
const DOMAIN: &str = ".rdt.noderesource.dev/container.";

/// RDT settings of a container; `None` leaves a setting as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Name of the resctrl group.
    pub(crate) clos_id: Option<String>,
    /// Lines of the group's schemata.
    pub(crate) schemata: Option<Vec<String>>,
    /// Whether the container gets a monitoring group.
    pub(crate) enable_monitoring: Option<bool>,
    /// Annotations of this container that name no setting.
    pub(crate) unknown: Vec<String>,
}

/// A value of an annotation is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key} is {value:?}, not true or false")]
pub(crate) struct InvalidValue {
    key: String,
    value: String,
}

impl Settings {
    /// Reads the annotations for a container.
    pub(crate) fn read(
        annotations: &HashMap<String, String>,
        container: &str,
    ) -> Result<Self, InvalidValue> {
        let suffix = format!("{DOMAIN}{container}");
        let mut settings = Self::default();
        for (key, value) in annotations {
            let Some(name) = key.strip_suffix(&suffix) else { continue };
            match name {
                "closid" => settings.clos_id = Some(value.clone()),
                "schemata" => {
                    settings.schemata = Some(value.split(',').map(str::to_owned).collect());
                }
                "enablemonitoring" => {
                    let invalid = || InvalidValue { key: key.clone(), value: value.clone() };
                    settings.enable_monitoring = Some(boolean(value).ok_or_else(invalid)?);
                }
                _ => settings.unknown.push(key.clone()),
            }
        }
        settings.unknown.sort();
        Ok(settings)
    }
}

/// Reads a boolean in the forms of Go's `strconv.ParseBool`.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Result<Settings, String> {
        let owned = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Settings::read(&owned.collect(), "c0").map_err(|e| e.to_string())
    }

    #[test]
    fn settings_of_the_container_are_read() {
        let settings = read(&[
            ("closid.rdt.noderesource.dev/container.c0", "gold"),
            ("schemata.rdt.noderesource.dev/container.c0", "L3:0=ff;1=f,MB:0=50"),
            ("enablemonitoring.rdt.noderesource.dev/container.c0", "T"),
            ("closid.rdt.noderesource.dev/container.c1", "silver"),
            ("closid.rdt.noderesource.dev/pod", "bronze"),
            ("colour.rdt.noderesource.dev/container.c0", "red"),
        ]);
        let expected = Settings {
            clos_id: Some("gold".into()),
            schemata: Some(vec!["L3:0=ff;1=f".into(), "MB:0=50".into()]),
            enable_monitoring: Some(true),
            unknown: vec!["colour.rdt.noderesource.dev/container.c0".into()],
        };
        assert_eq!(settings, Ok(expected));
        assert_eq!(read(&[]), Ok(Settings::default()));
    }

    #[test]
    fn empty_values_are_values() {
        let settings = read(&[
            ("closid.rdt.noderesource.dev/container.c0", ""),
            ("schemata.rdt.noderesource.dev/container.c0", ""),
        ])
        .unwrap();
        assert_eq!(settings.clos_id.as_deref(), Some(""));
        assert_eq!(settings.schemata, Some(vec![String::new()]));
    }

    #[test]
    fn a_value_that_is_no_boolean_is_refused() {
        for value in ["", "yes", "tRUE", " true"] {
            let key = "enablemonitoring.rdt.noderesource.dev/container.c0";
            let expected = format!("annotation {key} is {value:?}, not true or false");
            assert_eq!(read(&[(key, value)]), Err(expected));
        }
    }
}
