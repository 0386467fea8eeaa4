//! Rule that required plugins must be consulted, and its exception by annotation.

use crate::validator::annotation;
use crate::validator::config::{DefaultValidatorConfig, REQUIRED_PLUGINS_ANNOTATION};
use crate::validator::rejection::Rejection;
use nri_api::proto::{PodSandbox, ValidateContainerAdjustmentRequest};

/// Whether the annotation `key` of the pod allows required plugins to be missing for a container
/// with this name. A value that is not a boolean counts as false here; `plugins` rejects it.
pub fn tolerates_missing_plugins(key: &str, pod: &PodSandbox, container: &str) -> bool {
    let value = annotation::effective(pod, key, container).filter(|_| !key.is_empty());
    value.and_then(annotation::parse_boolean) == Some(true)
}

pub(super) fn plugins(
    config: &DefaultValidatorConfig,
    request: &ValidateContainerAdjustmentRequest,
) -> Result<(), Rejection> {
    let container = &request.container.name;
    if let Some(key) =
        config.tolerate_missing_plugins_annotation.as_deref().filter(|key| !key.is_empty())
        && let Some(value) = annotation::effective(&request.pod, key, container)
    {
        match annotation::parse_boolean(value) {
            Some(true) => return Ok(()),
            Some(false) => {}
            None => return Err(invalid(key, value, "a boolean")),
        }
    }
    let mut required = config.required_plugins.clone();
    if let Some(value) = annotation::effective(&request.pod, REQUIRED_PLUGINS_ANNOTATION, container)
    {
        let names = annotation::parse_names(value);
        required.extend(names.ok_or_else(|| {
            invalid(REQUIRED_PLUGINS_ANNOTATION, value, "a YAML list of plugin names")
        })?);
    }
    required.retain(|name| {
        !request
            .plugins
            .iter()
            .any(|p| *name == p.name || *name == format!("{}-{}", p.index, p.name))
    });
    if required.is_empty() { Ok(()) } else { Err(Rejection::MissingPlugins { missing: required }) }
}

fn invalid(key: &str, value: &str, wanted: &'static str) -> Rejection {
    Rejection::InvalidAnnotation { key: key.to_owned(), value: value.to_owned(), wanted }
}
