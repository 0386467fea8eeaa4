//! Reads the output of redis-benchmark.

use serde_json::{Value, json};

/// Returns the latencies in milliseconds. The percentile 99.9 is the first one at least as large in
/// the distribution that redis-benchmark prints, which has 99.902.
///
/// # Panics
/// The output has no latencies.
pub(crate) fn figures(output: &str) -> Value {
    // Progress is printed in lines that end with a carriage return.
    let lines: Vec<&str> = output.split(['\r', '\n']).map(str::trim).collect();
    let after = |title: &str| {
        let at = lines.iter().position(|line| line.starts_with(title));
        &lines[at.unwrap_or_else(|| panic!("redis-benchmark has no {title:?}: {output}")) + 1..]
    };
    let summary = after("latency summary (msec):");
    let heads = summary[0].split_whitespace();
    let values = summary[1].split_whitespace().map(|value| value.parse::<f64>().expect("a time"));
    let summary: Vec<(&str, f64)> = heads.zip(values).collect();
    let of = |name: &str| summary.iter().find(|(head, _)| *head == name).expect("a known name").1;

    let distribution = after("Latency by percentile distribution:");
    let p999 = distribution.iter().map_while(|line| percentile(line));
    let p999 = p999.into_iter().find(|(share, _)| *share >= 99.9).map(|(_, latency)| latency);
    let requests = lines.iter().find_map(|line| line.split_once(" requests completed in "));
    let requests = requests.and_then(|(count, _)| count.parse::<u64>().ok());
    json!({
        "p50": of("p50"), "p99": of("p99"), "p999": p999.unwrap_or_else(|| of("max")),
        "max": of("max"), "requests": requests,
    })
}

/// Reads a line such as `99.902% <= 0.191 milliseconds (cumulative count 24979)`.
fn percentile(line: &str) -> Option<(f64, f64)> {
    let (share, rest) = line.split_once("% <= ")?;
    let latency = rest.split_once(" milliseconds")?.0;
    Some((share.parse().ok()?, latency.parse().ok()?))
}
