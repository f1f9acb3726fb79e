//! Dotted keys of nested tables.

use crate::sweep::SweepError;
use crate::sweep::axes;
use toml::{Table, Value};

/// Calls `take` with each value of nested tables by its dotted key. Of a grid, tables that are ranges are values.
pub(super) fn flatten(
    table: &Table,
    prefix: &str,
    is_grid: bool,
    take: &mut dyn FnMut(&str, &Value) -> Result<(), SweepError>,
) -> Result<(), SweepError> {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(inner) if !(is_grid && axes::is_range(inner)) && is_known_table(&key) => {
                flatten(inner, &key, is_grid, take)?;
            }
            value => take(&key, value)?,
        }
    }
    Ok(())
}

/// Tables of a scenario, whose keys are varied one by one; other tables are values, such as `{ fixed = … }`.
fn is_known_table(key: &str) -> bool {
    const TABLES: [&str; 9] =
        ["trace", "network", "training", "framework", "checkpoint", "reconfiguration", "cost", "prices", "market"];
    TABLES.contains(&key) || ["gpus", "nodes"].contains(&key)
}

/// Sets a dotted key.
pub(super) fn set(document: &mut Table, key: &str, value: Value) -> Result<(), String> {
    match key.split_once('.') {
        None => {
            document.insert(key.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => match document.entry(first.to_owned()).or_insert_with(|| Table::new().into()) {
            Value::Table(inner) => set(inner, rest, value),
            _ => Err(format!("`{first}` is no table\nhint: `scenarios/aws-spot.toml` shows every key")),
        },
    }
}
