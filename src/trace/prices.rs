//! Prices over time: AWS's history of spot prices, as `aws ec2 describe-spot-price-history` prints it.
//!
//! A row says that an instance type costs so much in a zone from a moment on; rows come newest first, types and zones mixed,
//! and only where something changed. So a price holds until the next row of its type, zone and product. An empty price says
//! that the type wasn't offered: what a node that is there costs then, the history doesn't tell. Prices are read as what they
//! are written as, whole millionths of a dollar.

mod quotes;

pub use quotes::{NoQuote, Quote, Quotes};

use super::calendar::Zero;
use super::error::{TraceError, shown};
use super::json::{Document, Element};
use crate::cluster::InstanceType;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The products whose prices are those of Linux, best first.
const LINUX: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];
/// The highest price that is believed.
const MOST_USD_PER_HOUR: f64 = 1e6;

/// Prices of one instance type in one zone.
#[derive(Clone, Debug, PartialEq)]
struct Series {
    instance: InstanceType,
    zone: String,
    /// From when on which price holds, millionths of a dollar an hour; none where the type wasn't offered.
    changes: Vec<(Timestamp, Option<u64>)>,
}

/// What was paid for instances, by type, zone and time.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceHistory {
    series: Vec<Series>,
    first: Timestamp,
    last: Timestamp,
    /// What was understood and left out, one sentence each, for stderr.
    pub notes: Vec<String>,
}

/// A row of the file.
struct Row<'a> {
    instance: &'a str,
    zone: &'a str,
    product: &'a str,
    time: Timestamp,
    micro_usd_per_hour: Option<u64>,
}

impl PriceHistory {
    /// Reads a file. Where `instances` names some, only rows of theirs are taken.
    ///
    /// # Errors
    ///
    /// [`TraceError`] names the element and the key; it is an error, too, if no row is of a type with known GPUs.
    pub fn read(path: &Path, instances: &[String]) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let bytes = crate::input::read_bytes(path, crate::input::MOST_TRACE_BYTES)
            .map_err(|source| TraceError::Read { file: name.clone(), source })?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Self::parse(text, &name, instances),
            Err(error) => Err(TraceError::not_utf8(&name, &bytes, error.valid_up_to())),
        }
    }

    /// Reads a history from text; `name` stands for the file in messages.
    ///
    /// # Errors
    ///
    /// As [`PriceHistory::read`].
    pub fn parse(text: &str, name: &str, instances: &[String]) -> Result<Self, TraceError> {
        let document = Document::parse(text.strip_prefix('\u{feff}').unwrap_or(text), name)?;
        let elements: Vec<Element> = document.elements(name).collect();
        let mut elements_of_rows = Vec::new();
        for element in elements {
            let list = element.get("SpotPriceHistory");
            if list.is_absent() {
                elements_of_rows.push(element);
            } else {
                elements_of_rows.extend(list.list("a list of prices")?);
            }
        }
        let rows = elements_of_rows.iter().map(row).collect::<Result<Vec<Row>, _>>()?;
        Self::of_rows(&rows, name, instances)
    }

    fn of_rows(rows: &[Row], name: &str, instances: &[String]) -> Result<Self, TraceError> {
        let count = rows.len();
        let is_asked = |row: &Row| instances.is_empty() || instances.iter().any(|instance| instance == row.instance);
        let product = product(rows, name)?;
        let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
        let mut series: BTreeMap<(&str, &str), Series> = BTreeMap::new();
        for row in rows {
            let mut leave = |why: String| *left_out.entry(why).or_default() += 1;
            match InstanceType::lookup(row.instance) {
                _ if !is_asked(row) => leave(format!("of `{}`, which wasn't asked for", shown(row.instance))),
                _ if row.product != product => {
                    leave(format!("of `{}` rather than `{}`", shown(row.product), shown(product)));
                }
                None => leave(format!("of `{}`, whose GPUs aren't known", shown(row.instance))),
                Some(instance) => {
                    let empty = || Series { instance, zone: row.zone.to_owned(), changes: Vec::new() };
                    let series = series.entry((row.instance, row.zone)).or_insert_with(empty);
                    series.changes.push((row.time, row.micro_usd_per_hour));
                }
            }
        }
        let mut series: Vec<Series> = series.into_values().collect();
        for series in &mut series {
            series.changes.sort_by_key(|(time, _)| *time);
            series.changes.dedup();
            if let Some(pair) = series.changes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                let (file, instance) = (name.to_owned(), series.instance.name.to_owned());
                return Err(TraceError::TwoPrices {
                    file,
                    instance,
                    zone: shown(&series.zone),
                    time: pair[0].0.to_string(),
                });
            }
        }
        let times = || series.iter().flat_map(|series| series.changes.iter().map(|(time, _)| *time));
        let (Some(first), Some(last)) = (times().min(), times().max()) else {
            return Err(TraceError::NoPrices { file: name.to_owned(), rows: count });
        };
        let zones: BTreeSet<&str> = series.iter().map(|series| series.zone.as_str()).collect();
        let types: BTreeSet<&str> = series.iter().map(|series| series.instance.name).collect();
        let [types, zones] = [types, zones].map(|names| names.into_iter().collect::<Vec<_>>().join(", "));
        let mut notes = vec![format!("{count} prices of {product}, from {first} to {last}: {types} in {zones}")];
        notes.extend(left_out.into_iter().map(|(why, rows)| format!("{rows} rows are {why}: left out")));
        Ok(Self { series, first, last, notes })
    }

    /// From when to when it has rows.
    pub fn covers(&self) -> (Zero, Zero) {
        (Zero::new(self.first, true), Zero::new(self.last, true))
    }
}

/// The product whose prices count: Linux, or the only one.
fn product<'a>(rows: &[Row<'a>], name: &str) -> Result<&'a str, TraceError> {
    let products: BTreeSet<&str> = rows.iter().map(|row| row.product).collect();
    if let Some(linux) = LINUX.into_iter().find_map(|linux| products.get(linux).copied()) {
        return Ok(linux);
    }
    let mut all = products.iter();
    match (all.next(), all.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(TraceError::NoPrices { file: name.to_owned(), rows: 0 }),
        _ => {
            let found = products.iter().map(|product| shown(product)).collect::<Vec<_>>().join(", ");
            Err(TraceError::Products { file: name.to_owned(), found })
        }
    }
}

fn row<'a>(element: &Element<'a>) -> Result<Row<'a>, TraceError> {
    let price = element.get("SpotPrice");
    let expected = "US dollars an hour as a string, like `\"0.918000\"`, or an empty one";
    let hint = "leave it as AWS gives it";
    let written = price.string().ok_or_else(|| price.wrong(expected, hint))?;
    let usd = if written.is_empty() {
        None
    } else {
        let usd = written.parse().ok().filter(|usd| (0.0..=MOST_USD_PER_HOUR).contains(usd));
        Some(usd.ok_or_else(|| price.wrong(expected, hint))?)
    };
    let product = element.get("ProductDescription");
    Ok(Row {
        instance: element.get("InstanceType").text("the type of instance")?,
        zone: element.get("AvailabilityZone").text("the availability zone")?,
        product: if product.is_absent() { LINUX[0] } else { product.text("the product, such as `Linux/UNIX`")? },
        time: element.get("Timestamp").time()?,
        micro_usd_per_hour: usd.map(|usd: f64| (usd * 1e6).round() as u64),
    })
}

#[cfg(test)]
mod tests;
