//! Looks for a container that `nrid` does not know among the running containers of engines.

use super::{
    advice::explanation,
    find::{EngineContainer, Wrapper, find},
};
use crate::{error::CtlError, nrid_location::NridLocation};
use nri_control::{Ambiguous, Match, Verified};
use std::path::Path;

/// Beginning of the message by which `nrid` says that it does not know a container.
const NO_SUCH_CONTAINER: &str = "no such container";

/// Returns the result of a command about the container `wanted`, a name or id. If the command has
/// failed because `nrid` does not know the container, and an engine runs it, the error says how,
/// and has the same exit code.
pub(crate) fn or_unknown<T>(
    result: Result<T, CtlError>,
    nrid: &NridLocation,
    wanted: &str,
) -> Result<T, CtlError> {
    let is_unknown = |error: &CtlError| match error {
        CtlError::Refused(message) => message.starts_with(NO_SUCH_CONTAINER),
        CtlError::NoHistory(_) | CtlError::NoAuditLog(_) | CtlError::NotRunning(_) => true,
        _ => false,
    };
    result.map_err(|error| {
        let found = || Unknown::find(&nrid.launcher.state_dir).explain(wanted);
        match is_unknown(&error).then(found).flatten() {
            Some(text) => CtlError::NotOfNrid { text, error: Box::new(error) },
            None => error,
        }
    })
}

/// Says how containers run that `nrid` does not know, in the place of its error.
pub(crate) fn explain_unknown(verified: &mut [Verified], nrid: &NridLocation) {
    let is_unknown = |error: &Option<String>| error.as_deref() == Some(NO_SUCH_CONTAINER);
    let mut found = None;
    for container in verified.iter_mut().filter(|container| is_unknown(&container.error)) {
        let found = found.get_or_insert_with(|| Unknown::find(&nrid.launcher.state_dir));
        if let Some(text) = found.explain(&container.id) {
            container.error = Some(text);
        }
    }
}

/// The running containers of engines without a record of `nrid`.
struct Unknown(Vec<EngineContainer>);

impl Unknown {
    fn find(state_dir: &Path) -> Self {
        let mut containers = find(state_dir).containers;
        containers.retain(|container| container.wrapper != Wrapper::Yes);
        Self(containers)
    }

    /// Says how the container runs that a person means, or that several are meant; `None` if there
    /// is none.
    fn explain(&self, wanted: &str) -> Option<String> {
        let (_, meant) = Match::best(self.0.iter().filter_map(|container| {
            Some((Match::of(wanted, &[&container.id], &container.name)?, container))
        }));
        match meant.as_slice() {
            [] => None,
            [container] => Some(explanation(container)),
            several => {
                let ids: Vec<_> = several.iter().map(|container| &container.id).collect();
                Some(Ambiguous::new("containers", wanted, &ids).to_string())
            }
        }
    }
}
