//! Sets the exporter of spans that the configuration names.

use crate::settings::load::Settings;

/// Exports spans as the configuration says from now on.
#[cfg(feature = "otlp")]
pub fn configure(settings: &Settings) {
    let endpoint = settings.config.tracing.endpoint.as_ref();
    super::sink::set(endpoint.and_then(super::otlp::exporter_to));
}

/// Does nothing: this program is built without an exporter.
#[cfg(not(feature = "otlp"))]
pub fn configure(_: &Settings) {}
