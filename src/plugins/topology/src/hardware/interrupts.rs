//! CPUs that serve the interrupts of devices, from `/proc/interrupts`.

use crate::hardware::cpuset::CpuSet;

/// Returns the CPUs that have served more interrupts of devices than others: over one and a half
/// times as many as if all had served equally many. Interrupts of the CPUs themselves, such as
/// timers, have names instead of numbers, and do not count.
pub(crate) fn serving(text: &str) -> CpuSet {
    let mut lines = text.lines();
    let columns = lines.next().unwrap_or_default().split_whitespace();
    let cpus: Vec<usize> =
        columns.filter_map(|column| column.strip_prefix("CPU")?.parse().ok()).collect();
    let mut served = vec![0u64; cpus.len()];
    for line in lines {
        let Some((number, counts)) = line.split_once(':') else { continue };
        if number.trim().parse::<u32>().is_err() {
            continue;
        }
        for (sum, count) in served.iter_mut().zip(counts.split_whitespace()) {
            *sum = sum.saturating_add(count.parse().unwrap_or(0));
        }
    }
    let all: u128 = served.iter().map(|count| u128::from(*count)).sum();
    let is_serving = |count: u64| u128::from(count) * cpus.len() as u128 * 2 > all * 3;
    cpus.iter().zip(&served).filter(|(_, count)| is_serving(**count)).map(|(cpu, _)| *cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_serve_more_than_others_are_found() {
        let check = |lines: &str, expected: &str| {
            let text = format!("           CPU0       CPU1       CPU3\n{lines}");
            assert_eq!(serving(&text).to_string(), expected, "{lines}");
        };
        check("", "");
        check(" 24:  10  20  900   IO-APIC  virtio0\n 25: 5 0 0 PCI-MSI eth0\n", "3");
        check(" 24:  10  10  10   IO-APIC  virtio0\n", "");
        check("LOC:  1  1  9000000  Local timer interrupts\n 24: 7 1 1 x\nERR: 0\n", "0");
        assert_eq!(serving("").to_string(), "");
    }
}
