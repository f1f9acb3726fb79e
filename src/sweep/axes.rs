//! What is varied, and over which values.

use toml::{Table, Value};

/// Most values of one axis.
const MOST_VALUES: u64 = 100_000;

/// One thing that is varied.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its dotted key, or `planner` or `policy`.
    pub name: String,
    /// What it is set to.
    pub values: Values,
}

/// The values of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// These.
    Listed(Vec<Value>),
    /// Any number between two, for a random sample.
    Between {
        /// The least.
        from: f64,
        /// The largest.
        to: f64,
        /// Whether ratios are drawn evenly, rather than differences.
        is_logarithmic: bool,
    },
}

impl Values {
    /// Reads an array of values, or a range `{ from, to, step }`, whose end belongs to it.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Array(values) if values.is_empty() => Err("it has no values".to_owned()),
            Value::Array(values) => Ok(Self::Listed(values.clone())),
            Value::Table(range) if is_range(range) => read_range(range),
            other => Err(format!("expected an array of values or {{ from, to, step }}, not `{other}`")),
        }
    }
}

/// Whether a table is a range, and not a part of dotted keys.
pub(super) fn is_range(table: &Table) -> bool {
    table.contains_key("from") || table.contains_key("to")
}

fn read_range(range: &Table) -> Result<Values, String> {
    if let Some(stray) = range.keys().find(|key| !["from", "to", "step", "logarithmic"].contains(&key.as_str())) {
        return Err(format!("unknown key `{stray}` of a range, expected `from`, `to`, `step` or `logarithmic`"));
    }
    let number = |key: &str| match range.get(key) {
        None => Ok(None),
        Some(Value::Integer(value)) => Ok(Some(*value as f64)),
        Some(Value::Float(value)) if value.is_finite() => Ok(Some(*value)),
        Some(other) => Err(format!("`{key}` is `{other}`, expected a number")),
    };
    let missing = |key: &str| format!("the range has no `{key}`");
    let from = number("from")?.ok_or_else(|| missing("from"))?;
    let to = number("to")?.ok_or_else(|| missing("to"))?;
    if from > to {
        return Err(format!("the range begins at {from} and ends before that, at {to}"));
    }
    let is_whole = ["from", "to"].iter().all(|key| range.get(*key).is_some_and(Value::is_integer));
    let is_logarithmic = match range.get("logarithmic") {
        None => false,
        Some(Value::Boolean(is_logarithmic)) => *is_logarithmic,
        Some(other) => return Err(format!("`logarithmic` is `{other}`, expected true or false")),
    };
    let step = match number("step")? {
        Some(step) if step <= 0.0 => return Err(format!("`step` is {step}, expected a number above zero")),
        Some(step) => step,
        None if is_whole => 1.0,
        None if is_logarithmic && from <= 0.0 => {
            return Err(format!("a logarithmic range begins above zero, not at {from}"));
        }
        None => return Ok(Values::Between { from, to, is_logarithmic }),
    };
    let steps = ((to - from) / step + 1e-9).floor();
    if steps >= MOST_VALUES as f64 {
        return Err(format!("the range has {} values, at most {MOST_VALUES} are swept", steps + 1.0));
    }
    let count = steps as u64 + 1;
    let is_whole = is_whole && step.fract() == 0.0;
    let value = |index: u64| {
        let number = from + index as f64 * step;
        if is_whole { Value::Integer(number as i64) } else { Value::Float(number) }
    };
    Ok(Values::Listed((0..count).map(value).collect()))
}

/// A scenario's value as it stands in a row.
pub(super) fn json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or(serde_json::Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Values, String> {
        let table: Table = toml::from_str(&format!("a = {text}")).unwrap();
        Values::read(&table["a"])
    }

    #[test]
    fn ranges_have_both_ends() {
        let whole = [0, 3, 6].map(Value::Integer).to_vec();
        assert_eq!(read("{ from = 0, to = 7, step = 3 }"), Ok(Values::Listed(whole)));
        assert_eq!(read("{ from = 2, to = 3 }"), Ok(Values::Listed([2, 3].map(Value::Integer).to_vec())));
        let Ok(Values::Listed(tenths)) = read("{ from = 0.1, to = 0.5, step = 0.1 }") else { panic!() };
        assert_eq!(tenths.len(), 5);
        let between = Values::Between { from: 1.0, to: 100.0, is_logarithmic: true };
        assert_eq!(read("{ from = 1.0, to = 100, logarithmic = true }"), Ok(between));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for bad in [
            "{ from = 0, to = 1e300, step = 1 }",
            "[]",
            "3",
            "{ from = 3, to = 1 }",
            "{ from = 1 }",
            "{ from = 1, to = 2, step = 0 }",
            "{ from = 0, to = 1e9, step = 1 }",
            "{ from = 0.0, to = 1.0, logarithmic = true }",
            "{ from = 0, to = 1, by = 1 }",
            "{ from = nan, to = 1 }",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
