//! Serving: the generated dispatch, with handlers that neither a panic nor the peer can leave half
//! done.
//!
//! The library runs a handler inside of a task that it cancels when the peer's deadline passes or
//! the connection ends. A handler that changes containers must not stop anywhere, so each runs in a
//! task of its own, to its end; a panic in it becomes an `INTERNAL` status.

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

/// What a service method is told beside the request.
pub type Context = ttrpc::r#async::TtrpcContext;

/// An error to be returned from a service method.
pub fn status(code: Code, message: impl ToString) -> ttrpc::Error {
    ttrpc::Error::RpcStatus(ttrpc::get_status(code, message))
}

/// The same services, with each handler in a task of its own.
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
        let mut answer =
            match tokio::spawn(async move { handler.handler(ctx, request).await }).await {
                Ok(answer) => answer.unwrap_or_else(Into::into),
                Err(e) => failure(Code::INTERNAL, format!("{path} failed: {e}")),
            };
        // What the generated traits answer for a method that is not implemented.
        if answer.status.message == format!("{path} is not supported") {
            answer = failure(Code::UNIMPLEMENTED, format!("{path} is not implemented"));
        }
        let size = Codec::size(&answer) as usize;
        if size > MAX_MESSAGE {
            let text =
                format!("answer of {size} bytes to {path}, more than the {MAX_MESSAGE} allowed");
            answer = failure(Code::RESOURCE_EXHAUSTED, text);
        }
        Ok(answer)
    }
}

fn failure(code: Code, message: String) -> Response {
    status(code, message).into()
}
