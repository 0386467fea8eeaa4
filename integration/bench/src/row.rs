//! A row of the result: the figures of this repository and of the peer, and the target.

use std::fmt;

/// Upper or lower limit of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// One row.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    /// Figure of the peer, with its unit.
    pub(crate) peer: String,
    /// Figure of this repository, with its unit.
    pub(crate) here: String,
    /// The figure that has the target: a ratio if `unit` is empty.
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// `None` for a row that only explains others.
    pub(crate) target: Option<Target>,
    /// Number of samples of each series.
    pub(crate) samples: usize,
}

impl Row {
    /// Whether the target is met; `None` without a target.
    pub(crate) fn is_met(&self) -> Option<bool> {
        self.target.map(|target| match target {
            Target::AtMost(limit) => self.value <= limit,
            Target::AtLeast(limit) => self.value >= limit,
        })
    }

    /// Share of the target that is used; the target is missed if the share is above 1.
    pub(crate) fn used(&self) -> Option<f64> {
        self.target.map(|target| match target {
            Target::AtMost(limit) => self.value / limit,
            Target::AtLeast(limit) => limit / self.value,
        })
    }

    /// The figure with its unit.
    pub(crate) fn figure(&self) -> String {
        with_unit(self.value, self.unit)
    }

    /// The target with its unit; empty if the row has no target.
    pub(crate) fn limit(&self) -> String {
        match self.target {
            Some(Target::AtMost(limit)) => format!("≤ {}", with_unit(limit, self.unit)),
            Some(Target::AtLeast(limit)) => format!("≥ {}", with_unit(limit, self.unit)),
            None => String::new(),
        }
    }
}

fn with_unit(value: f64, unit: &str) -> String {
    let text = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let (what, peer, here) = (&self.what, &self.peer, &self.here);
        let (figure, limit) = (self.figure(), self.limit());
        write!(f, "{what}: {figure} {limit} {met}\n    peer: {peer}\n    here: {here}")
    }
}

/// Microseconds as text in milliseconds.
pub(crate) fn milliseconds(microseconds: f64) -> String {
    format!("{:.2} ms", microseconds / 1e3)
}
