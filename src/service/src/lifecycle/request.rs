//! Requests to plugins that carry a pod, or a pod and a container.

/// Builds a request that carries a pod and a container.
macro_rules! container_request {
    ($request:ident, $pod:expr, $container:expr) => {
        nri_api::proto::$request {
            pod: Some($pod).into(),
            container: Some($container).into(),
            ..Default::default()
        }
    };
}

/// Builds a request that carries a pod.
macro_rules! pod_request {
    ($request:ident, $pod:expr) => {
        nri_api::proto::$request { pod: Some($pod).into(), ..Default::default() }
    };
}

pub(crate) use container_request;
pub(crate) use pod_request;
