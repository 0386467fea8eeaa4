//! Pressure stall information (PSI), from the files of cgroup v2.

use serde::Serialize;

/// Pressure on a resource: shares of time in which tasks waited for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Pressure {
    /// At least one task waited.
    pub(super) some: Option<StallShares>,
    /// All tasks waited.
    pub(super) full: Option<StallShares>,
}

/// Shares in percent, as averages over the last seconds, and the total in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct StallShares {
    pub(super) avg10: f64,
    pub(super) avg60: f64,
    pub(super) avg300: f64,
    pub(super) total_us: u64,
}

impl Pressure {
    /// Reads the text of `cpu.pressure`, `memory.pressure` or `io.pressure`; `None` if it has
    /// another form.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let line = |kind: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
            let value = |name: &str| {
                let mut values = line.split(' ').filter_map(|word| word.split_once('='));
                values.find(|(key, _)| *key == name).map(|(_, value)| value)
            };
            Some(StallShares {
                avg10: value("avg10")?.parse().ok()?,
                avg60: value("avg60")?.parse().ok()?,
                avg300: value("avg300")?.parse().ok()?,
                total_us: value("total")?.parse().ok()?,
            })
        };
        let pressure = Self { some: line("some"), full: line("full") };
        pressure.some.is_some().then_some(pressure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_have_no_full_pressure_of_cpus() {
        let some = "some avg10=0.12 avg60=1.00 avg300=100.00 total=4711\n";
        let shares = StallShares { avg10: 0.12, avg60: 1.0, avg300: 100.0, total_us: 4711 };
        let pressure = Pressure { some: Some(shares.clone()), full: None };
        assert_eq!(Pressure::parse(some), Some(pressure));
        let both = format!("{some}full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
        let pressure = Pressure::parse(&both).unwrap();
        assert_eq!((pressure.some, pressure.full.unwrap().total_us), (Some(shares), 0));
        assert_eq!(Pressure::parse("some avg10=x"), None);
        assert_eq!(Pressure::parse(""), None);
    }
}
