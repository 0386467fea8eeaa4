//! [`RuntimeHandler`]: what a runtime does for plugins.

use async_trait::async_trait;
use nri_api::PluginId;
use nri_spec::cdi::{CdiEdits, CdiError};
use nri_spec::{ApplyContext, CdiResolver, HostDevice, Propagation};
use serde_json::Value;

use crate::plugin::Plugin;

/// Result of an update or eviction.
pub type HandlerResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Requests of plugins to a runtime, and facts that only the runtime has. Each method has a
/// default: `()` is a handler that performs nothing.
///
/// The methods may be called at any time and at the same time, also while a method of
/// [`Nri`](crate::Nri) waits for plugins. They must not call methods of `Nri` that wait, nor wait
/// for a lock that is held during such a call: both would wait forever.
#[async_trait]
pub trait RuntimeHandler: Send + Sync + 'static {
    /// Changes resources of a container that exists. `resources` is `linux.resources` of an OCI
    /// config with the changed fields alone, as `runc update --resources` takes it.
    async fn update_container(&self, container: &str, resources: &Value) -> HandlerResult {
        let _ = (container, resources);
        Err("this runtime does not update containers for plugins".into())
    }

    /// Stops a container that a plugin evicts.
    async fn evict_container(&self, container: &str, reason: &str) -> HandlerResult {
        let _ = (container, reason);
        Err("this runtime does not evict containers".into())
    }

    /// Receives the status of a plugin that connected, disconnected or failed. Must not block.
    fn plugin_changed(&self, plugin: &Plugin) {
        let _ = plugin;
    }

    /// Receives a line that a launched plugin wrote to its standard output or error. May block.
    fn plugin_output(&self, plugin: &PluginId, line: &str) {
        tracing::info!("{plugin}: {line}");
    }

    /// Returns the `linux.resources.blockIO` object of a block I/O class. Without it, a container
    /// that a plugin gives the class to is refused.
    fn blockio_class(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// Returns the `linux.intelRdt` object of an RDT class, as
    /// [`RuntimeHandler::blockio_class`] does for block I/O.
    fn rdt_class(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// Returns the edits of CDI devices with these names; see
    /// [`CdiRegistry`](crate::CdiRegistry). The default knows no device.
    ///
    /// # Errors
    /// A device is unknown; the container is refused.
    fn cdi_devices(&self, names: &[&str]) -> Result<Vec<CdiEdits>, CdiError> {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Err(CdiError::Unresolvable { names })
    }

    /// Returns the device node at a path of the host, for CDI edits that omit its numbers.
    fn device(&self, path: &str) -> Option<HostDevice> {
        let _ = path;
        None
    }

    /// Returns the propagation of the mount that holds a path of the host, for mounts of plugins
    /// with `rshared` or `rslave`. Without it, these are refused.
    fn mount_propagation(&self, path: &str) -> Option<Propagation> {
        let _ = path;
        None
    }

    /// Returns whether the kernel limits swap. If it does not, no limit of swap follows from a
    /// memory limit of a plugin.
    fn has_swap_accounting(&self) -> bool {
        true
    }
}

impl RuntimeHandler for () {}

/// The CDI devices of a handler.
struct HandlerDevices<'a>(&'a dyn RuntimeHandler);

impl CdiResolver for HandlerDevices<'_> {
    fn resolve(&self, names: &[&str]) -> Result<Vec<CdiEdits>, CdiError> {
        self.0.cdi_devices(names)
    }
}

/// Calls `apply` with the facts of a handler.
pub(crate) fn with_facts<R>(
    handler: &dyn RuntimeHandler,
    apply: impl FnOnce(&ApplyContext<'_>) -> R,
) -> R {
    apply(&ApplyContext {
        blockio: &|name| handler.blockio_class(name),
        rdt: &|name| handler.rdt_class(name),
        cdi: &HandlerDevices(handler),
        device: &|path| handler.device(path),
        propagation: &|path| handler.mount_propagation(path),
        swap_accounting: &|| handler.has_swap_accounting(),
    })
}
