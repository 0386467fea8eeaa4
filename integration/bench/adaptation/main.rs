//! `nri-bench-adaptation SOCKET FILE`: runs the adaptation of this repository as `nrid` does, and
//! reads the same commands from stdin as its peer in Go, `integration/bench/go/adaptation`.
//!
//! The program only sends the `CreateContainer` request in FILE to external plugins. It writes no
//! records and no bundles; their cost is in the life cycles that `nri-bench` measures.

use async_trait::async_trait;
use nix::sys::resource::{UsageWho, getrusage};
use nri_adaptation::{Adaptation, AdaptationConfig, ContainerManager, RequestContext, Snapshot};
use nri_api::{
    PluginId,
    proto::{ContainerEviction, ContainerUpdate, CreateContainerRequest},
};
use protobuf::Message;
use std::{
    io::BufRead,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::net::UnixListener;

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
    let [socket, file] = &arguments[..] else {
        eprintln!("usage: nri-bench-adaptation SOCKET FILE");
        std::process::exit(2);
    };
    let text = std::fs::read(file).expect("the request is readable");
    let request = CreateContainerRequest::parse_from_bytes(&text).expect("FILE is a request");
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
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("stdin is text");
        let words: Vec<_> = line.split(' ').collect();
        let number = |text: &str| text.parse::<usize>().expect("a number");
        match words[..] {
            ["plugins", count] => {
                runtime.block_on(wait_for_plugins(&adaptation, &request, number(count)));
                println!("ready");
            }
            ["run", count, in_flight] => {
                let run = create_all(&adaptation, &request, number(count), number(in_flight));
                println!("{}", runtime.block_on(run));
            }
            _ => panic!("unknown command {line:?}"),
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

/// Creates `count` containers, `in_flight` of them at the same time; returns the reply of the
/// command. As in `nrid`, which has a task for each connection, requests in flight are in different
/// tasks.
async fn create_all(
    adaptation: &Adaptation,
    request: &CreateContainerRequest,
    count: usize,
    in_flight: usize,
) -> serde_json::Value {
    let share = |worker: usize| (worker..count).step_by(in_flight).count();
    let work: Vec<Vec<_>> = (0..in_flight).map(|w| vec![request.clone(); share(w)]).collect();
    let (cpu_before, start) = (cpu(), Instant::now());
    let workers: Vec<_> = work
        .into_iter()
        .map(|requests| {
            let adaptation = adaptation.clone();
            tokio::spawn(async move {
                let mut took = Vec::with_capacity(requests.len());
                for request in requests {
                    let began = Instant::now();
                    create(&adaptation, request).await;
                    took.push(microseconds(began.elapsed()));
                }
                took
            })
        })
        .collect();
    let mut took = Vec::with_capacity(count);
    for worker in workers {
        took.extend(worker.await.expect("no creation fails"));
    }
    let (elapsed, used) = (microseconds(start.elapsed()), cpu() - cpu_before);
    serde_json::json!({ "took": took, "elapsed": elapsed, "cpu": used })
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// CPU time of this process in microseconds.
fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the call has no error");
    let of = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
    of(usage.user_time()) + of(usage.system_time())
}
