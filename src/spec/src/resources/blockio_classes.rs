//! Block I/O classes in goresctrl's format: `{"Classes": {NAME: [{"Devices": […], "Weight": "50",
//! "ThrottleReadBps": "10M", …}]}}`.
//!
//! An invalid class is an error, although goresctrl only warns: after a warning, a container would
//! run without some of the requested limits. Patterns of devices are matched by [`BlockDevices`]
//! when a class is resolved, so that devices may be added and removed at any time.

use crate::json::read::{Object, Read, field, list, map, object, text};
use crate::json::wrong_type::WrongType;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Finds block devices.
pub trait BlockDevices {
    /// Major and minor numbers of the block devices whose paths match a glob pattern, with symbolic
    /// links followed.
    fn matching(&self, pattern: &str) -> Vec<(i64, i64)>;
}

impl<F: Fn(&str) -> Vec<(i64, i64)>> BlockDevices for F {
    fn matching(&self, pattern: &str) -> Vec<(i64, i64)> {
        self(pattern)
    }
}

/// An invalid configuration of classes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBlockIoClass {
    /// A field has a wrong type.
    #[error("block I/O configuration does not have the expected form")]
    Form(#[from] WrongType),
    /// A field that does not exist.
    #[error("block I/O class {class:?} has the unknown field {field:?}")]
    UnknownField {
        /// Name of the class.
        class: String,
        /// Name of the field.
        field: String,
    },
    /// A number that cannot be parsed or is out of range.
    #[error("block I/O class {class:?}: {field} {value:?} {why}")]
    Quantity {
        /// Name of the class.
        class: String,
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: String,
        /// Reason.
        why: String,
    },
    /// A rate in an entry that lists no devices.
    #[error("block I/O class {class:?} throttles, but lists no devices")]
    NoDevices {
        /// Name of the class.
        class: String,
    },
}

/// The classes of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockIoClasses(BTreeMap<String, Vec<Part>>);

/// An entry of a class: weight and rates of a set of devices, or, without devices, the default
/// weight of all devices.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    devices: Option<Vec<String>>,
    weight: Option<u64>,
    rates: [Option<u64>; 4],
}

/// Names of the rates in the configuration and in the OCI config, in the order of [`Part::rates`].
const RATES: [(&str, &str); 4] = [
    ("ThrottleReadBps", "throttleReadBpsDevice"),
    ("ThrottleWriteBps", "throttleWriteBpsDevice"),
    ("ThrottleReadIOPS", "throttleReadIOPSDevice"),
    ("ThrottleWriteIOPS", "throttleWriteIOPSDevice"),
];

impl BlockIoClasses {
    /// Reads a configuration.
    pub fn parse(config: &Value) -> Result<Self, InvalidBlockIoClass> {
        let raw = named(object(config)?, "Classes", map(list(|part| object(part).cloned())))?
            .unwrap_or_default();
        let mut classes = BTreeMap::new();
        for (class, parts) in raw {
            let parts =
                parts.iter().map(|part| read_part(&class, part)).collect::<Result<_, _>>()?;
            classes.insert(class, parts);
        }
        Ok(Self(classes))
    }

    /// The `linux.resources.blockIO` object of a class. For the same device, later entries of the
    /// class override earlier entries.
    pub fn resolve(&self, class: &str, devices: &dyn BlockDevices) -> Option<Value> {
        let mut default_weight = None;
        let mut weights = BTreeMap::new();
        let mut rates: [BTreeMap<(i64, i64), u64>; 4] = Default::default();
        for part in self.0.get(class)? {
            let Some(patterns) = &part.devices else {
                default_weight = part.weight.or(default_weight);
                continue;
            };
            for device in patterns.iter().flat_map(|p| devices.matching(p)) {
                if let Some(weight) = part.weight {
                    weights.insert(device, weight);
                }
                for (all, rate) in rates.iter_mut().zip(part.rates) {
                    if let Some(rate) = rate {
                        all.insert(device, rate);
                    }
                }
            }
        }
        let mut result = Object::new();
        if let Some(weight) = default_weight {
            result.insert("weight".into(), weight.into());
        }
        let lists = [("weightDevice", "weight", weights)].into_iter();
        let lists =
            lists.chain(RATES.iter().zip(rates).map(|((_, key), list)| (*key, "rate", list)));
        for (key, value_key, list) in lists.filter(|(_, _, list)| !list.is_empty()) {
            let entry = |((major, minor), value)| -> Value {
                json!({ "major": major, "minor": minor, value_key: value })
            };
            result.insert(key.into(), list.into_iter().map(entry).collect());
        }
        Some(result.into())
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

fn read_part(class: &str, part: &Object) -> Result<Part, InvalidBlockIoClass> {
    let known = |key: &str| {
        RATES
            .iter()
            .map(|(k, _)| *k)
            .chain(["Devices", "Weight"])
            .any(|k| k.eq_ignore_ascii_case(key))
    };
    if let Some(field) = part.keys().find(|k| !known(k)) {
        return Err(InvalidBlockIoClass::UnknownField {
            class: class.into(),
            field: field.clone(),
        });
    }
    let mut rates = [None; 4];
    for (rate, (field, _)) in rates.iter_mut().zip(RATES) {
        // No quantity of Kubernetes is larger than 2^63 - 1.
        *rate = quantity(class, part, field, 0, i64::MAX.unsigned_abs())?;
    }
    let devices = named(part, "Devices", list(text))?;
    if devices.is_none() && rates.iter().any(Option::is_some) {
        return Err(InvalidBlockIoClass::NoDevices { class: class.into() });
    }
    // The range that the kernel accepts in `blkio.weight`.
    let weight = quantity(class, part, "Weight", 10, 1000)?;
    Ok(Part { devices, weight, rates })
}

/// Reads the field `name`, which may be written in upper or lower case, as in goresctrl.
fn named<'a, T>(
    fields: &'a Object,
    name: &str,
    read: impl FnOnce(&'a Value) -> Read<T>,
) -> Read<Option<T>> {
    let key = fields.keys().find(|k| k.eq_ignore_ascii_case(name));
    field(fields, key.map_or(name, String::as_str), read)
}

/// Reads the quantity in the field `field`, which must be between `min` and `max`.
fn quantity(
    class: &str,
    part: &Object,
    field: &'static str,
    min: u64,
    max: u64,
) -> Result<Option<u64>, InvalidBlockIoClass> {
    let read = |value: &Value| match value {
        Value::Number(number) => Ok(number.to_string()), // YAML without quotes
        other => text(other),
    };
    let Some(value) = named(part, field, read)?.filter(|v| !v.is_empty()) else { return Ok(None) };
    let wrong = |why: String| InvalidBlockIoClass::Quantity {
        class: class.into(),
        field,
        value: value.clone(),
        why,
    };
    match parse_quantity(&value) {
        None => Err(wrong("is not a quantity such as 50, 10M or 4Ki".into())),
        Some(n) if n < min => Err(wrong(format!("is less than {min}"))),
        Some(n) if n > max => Err(wrong(format!("is more than {max}"))),
        Some(n) => Ok(Some(n)),
    }
}

/// A quantity in Kubernetes' notation (`50M`, `4Ki`, `1.5G`, `1e3`), rounded up to a whole number.
fn parse_quantity(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Kubernetes has at most nine fractional digits: its smallest unit is nano.
    if (integer.is_empty() && fraction.is_empty()) || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let scale: u128 = match suffix {
        "" => 1,
        "k" => 1000,
        "M" => 1000_u128.pow(2),
        "G" => 1000_u128.pow(3),
        "T" => 1000_u128.pow(4),
        "P" => 1000_u128.pow(5),
        "E" => 1000_u128.pow(6),
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        "Ei" => 1 << 60,
        _ => 10_u128
            .checked_pow(suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|e| *e <= 18)?)?,
    };
    let unit = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let digits: u128 = format!("{integer}{fraction}").parse().ok()?;
    u64::try_from(digits.checked_mul(scale)?.div_ceil(unit)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Block devices of a test host.
    fn devices(pattern: &str) -> Vec<(i64, i64)> {
        match pattern {
            "/dev/sd*" => vec![(8, 16), (8, 0)],
            "/dev/disk/by-id/*SSD*" => vec![(8, 16)],
            _ => vec![],
        }
    }

    fn check(class: Value, expected: Result<Value, &str>) {
        let resolved = BlockIoClasses::parse(&json!({ "Classes": { "c": class } }))
            .map(|classes| classes.resolve("c", &devices).unwrap())
            .map_err(|e| match std::error::Error::source(&e) {
                Some(source) => source.to_string(),
                None => e.to_string(),
            });
        assert_eq!(resolved, expected.map_err(str::to_owned));
    }

    #[test]
    fn classes_are_resolved_to_block_io() {
        check(json!([]), Ok(json!({})));
        check(json!([{ "Weight": "80" }, { "weight": 400 }]), Ok(json!({ "weight": 400 })));
        check(
            json!([
                { "Weight": "80" },
                { "Devices": ["/dev/sd*", "/dev/vd*"], "ThrottleReadBps": "50M",
                    "ThrottleWriteIOPS": "5k", "Weight": "50" },
                { "Devices": ["/dev/disk/by-id/*SSD*"], "ThrottleReadBps": "1.5Gi" },
            ]),
            Ok(json!({
                "weight": 80,
                "weightDevice": [{ "major": 8, "minor": 0, "weight": 50 }, { "major": 8,
                    "minor": 16, "weight": 50 }],
                "throttleReadBpsDevice": [
                    { "major": 8, "minor": 0, "rate": 50_000_000 }, { "major": 8, "minor": 16,
                        "rate": 1_610_612_736 },
                ],
                "throttleWriteIOPSDevice": [{ "major": 8, "minor": 0, "rate": 5000 }, { "major": 8,
                    "minor": 16, "rate": 5000 }],
            })),
        );
    }

    #[test]
    fn mistakes_in_classes_are_errors() {
        check(json!({}), Err(r"Classes.c is an object, not an array"));
        check(
            json!([{ "Weight": "9" }]),
            Err(r#"block I/O class "c": Weight "9" is less than 10"#),
        );
        check(
            json!([{ "Weight": "1k1" }]),
            Err(r#"block I/O class "c": Weight "1k1" is not a quantity such as 50, 10M or 4Ki"#),
        );
        check(
            json!([{ "Wight": "9" }]),
            Err(r#"block I/O class "c" has the unknown field "Wight""#),
        );
        check(
            json!([{ "ThrottleReadBps": "1" }]),
            Err(r#"block I/O class "c" throttles, but lists no devices"#),
        );
        check(json!([{ "Devices": [1] }]), Err("Devices[0] is the number 1, not a string"));
        assert_eq!(
            BlockIoClasses::parse(&json!({ "Classes": null })),
            Ok(BlockIoClasses::default())
        );
        assert_eq!(BlockIoClasses::default().resolve("c", &devices), None);
    }

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1.5k", Some(1500)),
            (".5Ki", Some(512)),
            ("1.0001", Some(2)),
            ("1e3", Some(1000)),
            ("2E", Some(2_000_000_000_000_000_000)),
            ("99E", None),
            ("1e99", None),
            ("-1", None),
            ("1.2.3", None),
            ("é", None),
            ("", None),
            (".", None),
            ("5 M", None),
        ] {
            assert_eq!(parse_quantity(text), expected, "{text}");
        }
    }
}
