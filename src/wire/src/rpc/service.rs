//! Handlers of services, each in a separate task.
//!
//! A handler that changes containers must not be cancelled halfway when the peer's deadline passes
//! or the connection ends, so each handler runs to its end in its own task. A panic becomes the
//! status `INTERNAL`.

use nri_api::MAX_MESSAGE;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use ttrpc::{
    Code, Request, Response,
    r#async::{MethodHandler, Service},
    proto::Codec,
};

pub use crate::generated::nri_ttrpc::{Plugin, Runtime};
pub(crate) use crate::generated::nri_ttrpc::{create_plugin, create_runtime};

/// Context of a call: metadata and timeout.
pub type Context = ttrpc::r#async::TtrpcContext;

/// Returns a status as the error of a service method.
pub fn status(code: Code, message: impl ToString) -> ttrpc::Error {
    ttrpc::Error::RpcStatus(ttrpc::get_status(code, message))
}

/// Limits of the requests that a runtime handles at the same time: one request of each plugin, and
/// four large requests of all sessions that share this value. Other requests wait before they are
/// decoded, because a decoded request takes many times its encoded size.
#[derive(Debug, Clone)]
pub struct CallLimits(Arc<Semaphore>);

/// Size in bytes above which a request is large: updates of some hundred containers.
const LARGE: usize = 64 << 10;

/// Maximum number of large requests of all plugins that are handled at the same time.
const MAX_LARGE: usize = 4;

impl Default for CallLimits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LARGE)))
    }
}

/// Limits of one session.
#[derive(Debug, Clone)]
pub(crate) struct SessionLimits {
    /// Permit of the one request of the plugin that is handled.
    one: Arc<Semaphore>,
    large: CallLimits,
}

impl SessionLimits {
    pub(crate) fn new(limits: &CallLimits) -> Self {
        Self { one: Arc::new(Semaphore::new(1)), large: limits.clone() }
    }

    /// Waits until a request of this size may be handled.
    async fn permits(self, size: usize) -> [Option<OwnedSemaphorePermit>; 2] {
        // The semaphores are never closed.
        let one = self.one.acquire_owned().await.ok();
        let large = if size > LARGE { self.large.0.acquire_owned().await.ok() } else { None };
        [one, large]
    }
}

/// Handles a request in a task of its own, within the limits, and returns the reply.
pub(crate) async fn dispatch(
    handler: Arc<dyn MethodHandler + Send + Sync>,
    limits: Option<SessionLimits>,
    ctx: Context,
    request: Request,
) -> Response {
    let path = format!("/{}/{}", request.service, request.method);
    let handled = tokio::spawn(async move {
        let _permits = match limits {
            Some(limits) => limits.permits(request.payload.len()).await,
            None => Default::default(),
        };
        handler.handler(ctx, request).await
    });
    let mut reply = match handled.await {
        Ok(reply) => reply.unwrap_or_else(Into::into),
        Err(e) => failure(Code::INTERNAL, format!("{path} failed: {e}")),
    };
    // The generated traits reply with this message if a method is not implemented.
    if reply.status.message == format!("{path} is not supported") {
        reply = failure(Code::UNIMPLEMENTED, format!("{path} is not implemented"));
    }
    let size = Codec::size(&reply) as usize;
    if size > MAX_MESSAGE {
        let text = format!("reply of {size} bytes to {path}, more than the {MAX_MESSAGE} allowed");
        reply = failure(Code::RESOURCE_EXHAUSTED, text);
    }
    reply
}

pub(crate) fn failure(code: Code, message: String) -> Response {
    status(code, message).into()
}

/// Handlers of services, by service and method.
#[derive(Clone)]
pub(crate) struct Handlers(HashMap<String, HashMap<String, Arc<dyn MethodHandler + Send + Sync>>>);

impl Handlers {
    pub(crate) fn new(services: HashMap<String, Service>) -> Self {
        let shared = |service: Service| {
            service.methods.into_iter().map(|(name, handler)| (name, handler.into())).collect()
        };
        Self(services.into_iter().map(|(name, service)| (name, shared(service))).collect())
    }

    /// Returns the handler of a method.
    ///
    /// # Errors
    /// The reply if there is none.
    pub(crate) fn find(
        &self,
        service: &str,
        method: &str,
    ) -> Result<Arc<dyn MethodHandler + Send + Sync>, Response> {
        let methods = self.0.get(service).ok_or_else(|| {
            failure(Code::INVALID_ARGUMENT, format!("{service} service does not exist"))
        })?;
        let handler = methods.get(method);
        handler.cloned().ok_or_else(|| failure(Code::UNIMPLEMENTED, format!("{method} method")))
    }
}
