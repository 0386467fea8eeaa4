//! Order in which requests reach the plugins: the pipeline of plugin queues, and the context of a
//! request that passes it. Start from [`Pipeline`](pipeline::Pipeline).

pub(crate) mod context;
pub(crate) mod pipeline;
pub(crate) mod slot;
