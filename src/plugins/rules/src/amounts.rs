//! Amounts of rules for one container: evaluates their expressions, converts CPUs to a quota, and
//! applies `at_most` and `at_least`.

use crate::{
    compile::{rlimit_of, value_of},
    expression::EvaluationError,
    field::{Absent, DEFAULT_PERIOD, FieldValue, Key},
    quantity::Unit,
    rule::Amount,
};
use cel::Context;

/// The value of an amount for one container.
#[derive(Debug)]
pub(crate) struct Evaluated {
    /// The value, with which that of the container is compared.
    pub value: FieldValue,
    /// Quota and period that give the same CPUs, if the value is a quota below the kernel's
    /// minimum.
    pub with_period: Option<(FieldValue, FieldValue)>,
}

impl From<FieldValue> for Evaluated {
    fn from(value: FieldValue) -> Self {
        Self { value, with_period: None }
    }
}

/// Returns the value of an amount for a container whose quota has this period.
///
/// # Errors
/// An expression fails, or its value is no amount of the field.
pub(crate) fn evaluated(
    amount: &Amount,
    context: &Context<'_, '_>,
    period: Option<&FieldValue>,
) -> Result<Evaluated, EvaluationError> {
    let failed = |error: crate::quantity::QuantityError| EvaluationError::Failed(error.to_string());
    let value = match amount {
        Amount::Constant(value) => value.clone(),
        Amount::Computed(template, unit) => {
            value_of(&template.text(context)?, *unit).map_err(failed)?
        }
        Amount::Cpus(cpus) => return Ok(quota(*cpus, period)),
        Amount::ComputedCpus(template) => {
            let cpus = Unit::Cpus.parse(&template.text(context)?).map_err(failed)?;
            return Ok(quota(cpus, period));
        }
        Amount::Rlimit(soft, hard) => {
            let limit = |text: String| rlimit_of(&text).map_err(failed);
            FieldValue::Rlimit(limit(soft.text(context)?)?, limit(hard.text(context)?)?)
        }
    };
    Ok(value.into())
}

/// The smallest quota and the longest period of the kernel, in microseconds.
const MIN_QUOTA: i64 = 1000;
const MAX_PERIOD: i64 = 1_000_000;

/// Returns the quota that gives this many millionths of a CPU.
fn quota(cpus: i64, period: Option<&FieldValue>) -> Evaluated {
    let period = match period {
        Some(FieldValue::Number(period)) if *period > 0 => *period,
        _ => DEFAULT_PERIOD,
    };
    if cpus < 0 {
        return FieldValue::Number(-1).into();
    }
    let quota_of = |period: i64| {
        let quota = i128::from(cpus) * i128::from(period) / 1_000_000;
        i64::try_from(quota).unwrap_or(i64::MAX)
    };
    let quota = quota_of(period);
    let with_period = (quota < MIN_QUOTA).then(|| {
        let shortest = (MIN_QUOTA * 1_000_000 + cpus - 1) / cpus.max(1);
        let period = shortest.min(MAX_PERIOD);
        let quota = quota_of(period).max(MIN_QUOTA);
        (FieldValue::Number(quota), FieldValue::Number(period))
    });
    // 0 would be no limit.
    Evaluated { value: FieldValue::Number(quota.max(1)), with_period }
}

/// Applies `at_most` or `at_least` to the value of a field. Returns the value that it gets; `None`
/// if it keeps its own.
pub(crate) fn most_or_least(
    key: &Key,
    value: Option<&FieldValue>,
    limit: &FieldValue,
    is_most: bool,
) -> Option<FieldValue> {
    match (value, limit) {
        (Some(FieldValue::Rlimit(soft, hard)), FieldValue::Rlimit(limit_soft, limit_hard)) => {
            let bound = |value: &u64, limit: &u64| {
                if is_most { *value.min(limit) } else { *value.max(limit) }
            };
            let bounded = FieldValue::Rlimit(bound(soft, limit_soft), bound(hard, limit_hard));
            (Some(&bounded) != value).then_some(bounded)
        }
        (_, FieldValue::Number(limit)) => {
            let absent = match key {
                Key::Field(row) => row.absent,
                Key::Entry(..) => Absent::Unlimited,
            };
            // Amounts from 0 down mean that there is no limit, where none is the default.
            let amount = match (value, absent) {
                (Some(FieldValue::Number(n)), Absent::Unlimited) => Some(*n).filter(|n| *n > 0),
                (Some(FieldValue::Number(n)), Absent::Is(_)) => Some(*n),
                (_, Absent::Is(default)) => Some(default),
                (_, Absent::Unlimited) => None,
            };
            let is_unlimited = |n: i64| absent == Absent::Unlimited && n < 0;
            let outside = match amount {
                Some(amount) if is_most => !is_unlimited(*limit) && amount > *limit,
                Some(amount) => is_unlimited(*limit) || amount < *limit,
                None => is_most && !is_unlimited(*limit),
            };
            outside.then_some(FieldValue::Number(*limit))
        }
        (None, FieldValue::Rlimit(..)) => is_most.then(|| limit.clone()),
        _ => None,
    }
}
