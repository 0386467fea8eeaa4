//! Measures a change of `config.json`: parse, adjust, write.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use nri_bench::ConfigJson;

fn spec(c: &mut Criterion) {
    let mut group = c.benchmark_group("config.json");
    for plugins in [1, 10] {
        let config = ConfigJson::new(plugins);
        group.bench_function(BenchmarkId::new("plugins", plugins), |b| b.iter(|| config.run()));
    }
    group.finish();
}

criterion_group!(benches, spec);
criterion_main!(benches);
