//! `costs.csv`: what each policy paid for: GPUs by type, zone and price over time, storage and traffic.

use super::figures::ratio;
use crate::replay::{Metered, OtherCosts, Replay, Spending};
use csv::Writer;

/// The columns. `item` is `gpus`, `storage`, `egress` or `cross_zone`; GPUs have a type, a zone, whose price it is (`trace`, or the
/// instance type of a price history), from when to when that price held, and GPU-hours; storage has gigabytes kept for a month,
/// traffic has gigabytes. The last one is what the same GPU time would have cost on demand.
const COLUMNS: [&str; 13] = [
    "policy",
    "item",
    "gpu_type",
    "zone",
    "price_of",
    "from_s",
    "to_s",
    "gpu_hours",
    "gb_months",
    "gb",
    "usd",
    "usd_per_gpu_hour",
    "on_demand_usd",
];

/// What was paid for as CSV; cells are empty where a column says nothing of a row.
pub fn costs_csv(replay: &Replay) -> String {
    let mut csv = Writer::from_writer(Vec::new());
    let written = (|| {
        csv.write_record(COLUMNS)?;
        for outcome in &replay.policies {
            for spent in &outcome.spending {
                csv.write_record(gpus(outcome.policy, spent))?;
            }
            let OtherCosts { storage, egress, cross_zone } = outcome.other;
            for (item, metered) in [("storage", storage), ("egress", egress), ("cross_zone", cross_zone)] {
                if metered != Metered::default() {
                    csv.write_record(other(outcome.policy, item, metered))?;
                }
            }
        }
        csv.flush()
    })();
    written.expect("writing to memory doesn't fail");
    String::from_utf8(csv.into_inner().expect("it was flushed")).expect("names and numbers are UTF-8")
}

fn gpus(policy: &str, spent: &Spending) -> [String; 13] {
    let hours = spent.time.as_gpu_seconds() / 3600.0;
    let usd = spent.expense.as_usd();
    let none = String::new;
    [
        policy.to_owned(),
        "gpus".to_owned(),
        spent.gpu_type.clone(),
        spent.zone.clone(),
        spent.source.clone(),
        spent.from.as_seconds().to_string(),
        spent.to.as_seconds().to_string(),
        hours.to_string(),
        none(),
        none(),
        usd.to_string(),
        ratio(usd, hours).map_or_else(none, |price| price.to_string()),
        spent.on_demand.as_usd().to_string(),
    ]
}

fn other(policy: &str, item: &str, Metered { quantity, usd }: Metered) -> [String; 13] {
    let mut cells: [String; 13] = std::array::from_fn(|_| String::new());
    let column = |name: &str| COLUMNS.iter().position(|column| *column == name).unwrap_or_default();
    cells[column("policy")].push_str(policy);
    cells[column("item")].push_str(item);
    cells[column(if item == "storage" { "gb_months" } else { "gb" })] = quantity.to_string();
    cells[column("usd")] = usd.to_string();
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_row_for_each_type_zone_and_price() {
        let mut replay = fixture::small();
        replay.policies[0].other.storage = Metered { quantity: 2.5, usd: 0.05 };
        replay.policies[0].other.egress = Metered { quantity: 7.0, usd: 0.14 };
        let csv = costs_csv(&replay);
        let lines: Vec<_> = csv.lines().collect();
        let header =
            "policy,item,gpu_type,zone,price_of,from_s,to_s,gpu_hours,gb_months,gb,usd,usd_per_gpu_hour,on_demand_usd";
        assert_eq!(lines[0], header);
        assert_eq!(lines[1], "autohet,gpus,A100-80,z,trace,0,100,0.25,,,0.5,2,1");
        assert_eq!(lines[2], "autohet,storage,,,,,,,2.5,,0.05,,");
        assert_eq!(lines[3], "autohet,egress,,,,,,,,7,0.14,,");
        assert_eq!(lines.len(), 5);
    }
}
