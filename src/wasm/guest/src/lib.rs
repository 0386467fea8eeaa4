//! NRI plugin that is a WebAssembly module: sets a variable in each container, to the text of its
//! configuration.
//!
//! The functions here are the plugin; [`exports`] is what every module needs to be called.

mod exports;

use exports::{export, log};
use nri_api::EventMask;
use nri_api::proto::*;
use std::sync::Mutex;

/// Value of the variable.
static VALUE: Mutex<String> = Mutex::new(String::new());

export! {
    plugin_configure = configure;
    plugin_synchronize = synchronize;
    plugin_create_container = create_container;
    plugin_shutdown = shutdown;
}

/// Takes the configuration, and subscribes to events.
fn configure(request: ConfigureRequest) -> Result<ConfigureResponse, String> {
    log(&format!("configured by {} {}", request.runtime_name, request.runtime_version));
    *VALUE.lock().map_err(|e| e.to_string())? = request.config.trim().to_owned();
    let events = EventMask::from_iter([Event::CREATE_CONTAINER]).bits();
    Ok(ConfigureResponse { events, ..Default::default() })
}

/// Receives the containers that exist already.
fn synchronize(request: SynchronizeRequest) -> Result<SynchronizeResponse, String> {
    log(&format!("{} containers exist", request.containers.len()));
    Ok(SynchronizeResponse::new())
}

/// Adjusts a container.
fn create_container(request: CreateContainerRequest) -> Result<CreateContainerResponse, String> {
    if request.container.name == "refused" {
        return Err("no container may have this name".to_owned());
    }
    let mut adjust = ContainerAdjustment::new();
    let value = VALUE.lock().map_err(|e| e.to_string())?.clone();
    adjust.env.push(KeyValue { key: "WASM".to_owned(), value, ..Default::default() });
    Ok(CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() })
}

fn shutdown(_: Empty) -> Result<Empty, String> {
    log("shut down");
    Ok(Empty::new())
}
