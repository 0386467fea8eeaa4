//! Divides the CPUs of the machine between a service and its neighbours, as a careful person would.

/// CPUs of the machine, as lists for `taskset` and `--cpuset-cpus`.
#[derive(Debug)]
pub(crate) struct Cpus {
    pub(crate) count: usize,
    pub(crate) of_service: String,
    pub(crate) of_neighbours: String,
}

impl Cpus {
    /// Gives the service the CPU that has served the fewest interrupts of devices, the last one of
    /// several, and its neighbours the others. `interrupts` is the content of `/proc/interrupts`.
    ///
    /// # Panics
    /// The machine has one CPU.
    pub(crate) fn divide(interrupts: &str) -> Self {
        let mut lines = interrupts.lines();
        let head = lines.next().unwrap_or_default().split_whitespace();
        let cpus: Vec<&str> = head.filter_map(|name| name.strip_prefix("CPU")).collect();
        let count = cpus.len();
        assert!(count >= 2, "a service and its neighbours need two CPUs");
        let mut served = vec![0_u64; count];
        for line in lines {
            let Some((name, counts)) = line.split_once(':') else { continue };
            // Others, such as LOC, are not those of devices.
            if name.trim().parse::<u32>().is_ok() {
                let counts = counts.split_whitespace().map_while(|text| text.parse::<u64>().ok());
                served.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
        let least = (0..count).rev().min_by_key(|&n| served[n]).expect("there are two");
        let mut others = cpus.clone();
        let of_service = others.remove(least).to_owned();
        Self { count, of_service, of_neighbours: others.join(",") }
    }
}
