//! `nri-bench-adaptation serve SOCKET FILE`: runs the adaptation of this repository as `nrid` does,
//! and reads the same commands from stdin as its peer in Go, `integration/bench/go/adaptation`.
//! With `floor` in place of `serve`, the same plugins are called without an adaptation ([`floor`]).
//!
//! The program only sends the `CreateContainer` request in FILE to external plugins. It writes no
//! records and no bundles; their cost is in the life cycles that `nri-bench` measures.

mod floor;
mod reply;

use async_trait::async_trait;
use floor::Floor;
use nri_adaptation::{Adaptation, AdaptationConfig, ContainerManager, RequestContext, Snapshot};
use nri_api::{
    PluginId,
    proto::{ContainerEviction, ContainerUpdate, CreateContainerRequest},
};
use protobuf::Message;
use reply::Reply;
use std::{
    ffi::OsStr,
    io::BufRead,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::UnixListener, runtime::Runtime};

/// Container manager that has no containers.
struct NoContainers;

#[async_trait]
impl ContainerManager for NoContainers {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn update_containers(
        &self,
        _plugin: &PluginId,
        _updates: Vec<ContainerUpdate>,
        _evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        Vec::new()
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [mode, socket, file] = &arguments[..] else { usage() };
    let text = std::fs::read(file).expect("the request is readable");
    let request = CreateContainerRequest::parse_from_bytes(&text).expect("FILE is a request");
    match mode.to_str() {
        Some("serve") => serve(socket, &request),
        Some("floor") => serve_floor(socket, request),
        _ => usage(),
    }
}

fn usage() -> ! {
    eprintln!("usage: nri-bench-adaptation serve|floor SOCKET FILE");
    std::process::exit(2);
}

fn serve(socket: &OsStr, request: &CreateContainerRequest) {
    // The same runtime as in the main function of nrid.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads can be started");
    let adaptation = runtime.block_on(async {
        let config = AdaptationConfig { plugin_path: "".into(), ..AdaptationConfig::default() };
        let started = Adaptation::start(config, Arc::new(NoContainers)).await;
        let (adaptation, _) = started.expect("the adaptation starts, since it launches no plugins");
        let listener = UnixListener::bind(socket).expect("the socket can be created");
        adaptation.serve(listener).expect("external plugins are enabled");
        adaptation
    });
    answer_commands(|command| match command {
        Command::Plugins(count) => {
            runtime.block_on(wait_for_plugins(&adaptation, request, count));
            None
        }
        Command::Run { count, in_flight } => {
            Some(create_all(&runtime, &adaptation, request, count, in_flight))
        }
    });
}

fn serve_floor(socket: &OsStr, request: CreateContainerRequest) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the runtime needs no threads");
    let listener = runtime.block_on(async { UnixListener::bind(socket) });
    let mut floor = Floor::new(listener.expect("the socket can be created"), request);
    answer_commands(|command| match command {
        Command::Plugins(count) => {
            runtime.block_on(floor.accept(count));
            None
        }
        Command::Run { count, .. } => Some(floor.create_all(count)),
    });
}

/// A command of the harness.
enum Command {
    /// Wait for the plugins.
    Plugins(usize),
    /// Create containers.
    Run { count: usize, in_flight: usize },
}

/// Reads commands, and prints the reply to each: measured times, or `ready`.
fn answer_commands(mut execute: impl FnMut(Command) -> Option<Reply>) {
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("stdin is text");
        let words: Vec<_> = line.split(' ').collect();
        let number = |text: &str| text.parse().expect("a number");
        let command = match words[..] {
            ["plugins", count] => Command::Plugins(number(count)),
            ["run", count, in_flight] => {
                Command::Run { count: number(count), in_flight: number(in_flight) }
            }
            _ => panic!("unknown command {line:?}"),
        };
        match execute(command) {
            Some(reply) => println!("{}", reply.0),
            None => println!("ready"),
        }
    }
}

/// Sends the request, and returns the number of plugins that adjusted the container: each plugin
/// adds one variable.
async fn create(adaptation: &Adaptation, request: CreateContainerRequest) -> usize {
    let context = RequestContext::default();
    // The outcome is neither applied to a bundle nor recorded.
    let created = adaptation.create_container(request, &context, async |o| o, async |o| o).await;
    created.expect("no plugin refuses").adjust.env.len()
}

async fn wait_for_plugins(adaptation: &Adaptation, request: &CreateContainerRequest, count: usize) {
    while create(adaptation, request.clone()).await != count {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Creates `count` containers, `in_flight` of them at the same time. As in `nrid`, which has a task
/// for each connection, requests in flight are in different tasks.
fn create_all(
    runtime: &Runtime,
    adaptation: &Adaptation,
    request: &CreateContainerRequest,
    count: usize,
    in_flight: usize,
) -> Reply {
    let share = |worker: usize| (worker..count).step_by(in_flight).count();
    let work: Vec<Vec<_>> = (0..in_flight).map(|w| vec![request.clone(); share(w)]).collect();
    Reply::measure(|took| {
        let workers: Vec<_> = work
            .into_iter()
            .map(|requests| {
                let adaptation = adaptation.clone();
                runtime.spawn(async move {
                    let mut took = Vec::with_capacity(requests.len());
                    for request in requests {
                        let began = Instant::now();
                        create(&adaptation, request).await;
                        took.push(began.elapsed());
                    }
                    took
                })
            })
            .collect();
        for worker in workers {
            took.extend(runtime.block_on(worker).expect("no creation fails"));
        }
    })
}
