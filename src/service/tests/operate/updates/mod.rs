//! Tests of updates of other containers that plugins request with a creation.

mod hung_runtime;
mod undone;
