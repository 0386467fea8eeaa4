//! Handlers of services, each in a separate task.
//!
//! The ttrpc library cancels a handler when the peer's deadline passes or the connection ends. A
//! handler that changes containers must not be cancelled halfway, so each runs to its end in its
//! own task; a panic becomes the status `INTERNAL`.

use async_trait::async_trait;
use nri_api::MAX_MESSAGE;
use std::{collections::HashMap, sync::Arc};
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

/// Wraps the handlers of services so that each runs in a separate task.
pub(crate) fn detached(services: HashMap<String, Service>) -> HashMap<String, Service> {
    services
        .into_iter()
        .map(|(name, service)| {
            let methods = service.methods.into_iter().map(|(method, handler)| {
                (method, Box::new(Detached(handler.into())) as Box<dyn MethodHandler + Send + Sync>)
            });
            (name, Service { methods: methods.collect(), streams: service.streams })
        })
        .collect()
}

struct Detached(Arc<dyn MethodHandler + Send + Sync>);

#[async_trait]
impl MethodHandler for Detached {
    async fn handler(&self, ctx: Context, request: Request) -> ttrpc::Result<Response> {
        let path = format!("/{}/{}", request.service, request.method);
        let handler = self.0.clone();
        let mut reply = match tokio::spawn(async move { handler.handler(ctx, request).await }).await
        {
            Ok(reply) => reply.unwrap_or_else(Into::into),
            Err(e) => failure(Code::INTERNAL, format!("{path} failed: {e}")),
        };
        // Message of the generated traits for a method that is not implemented.
        if reply.status.message == format!("{path} is not supported") {
            reply = failure(Code::UNIMPLEMENTED, format!("{path} is not implemented"));
        }
        let size = Codec::size(&reply) as usize;
        if size > MAX_MESSAGE {
            let text =
                format!("reply of {size} bytes to {path}, more than the {MAX_MESSAGE} allowed");
            reply = failure(Code::RESOURCE_EXHAUSTED, text);
        }
        Ok(reply)
    }
}

fn failure(code: Code, message: String) -> Response {
    status(code, message).into()
}
