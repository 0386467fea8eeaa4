//! Measures the merge of the plugins' replies to `CreateContainer`.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use nri_bench::Merge;

fn merge(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge");
    for plugins in [1, 4, 10] {
        let merge = Merge::new(plugins);
        group.bench_function(BenchmarkId::new("plugins", plugins), |b| b.iter(|| merge.run()));
    }
    group.finish();
}

criterion_group!(benches, merge);
criterion_main!(benches);
