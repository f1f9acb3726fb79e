//! `costs.csv`: what each policy's nodes cost, by GPU type and zone.

use super::figures::ratio;
use crate::replay::Replay;

/// What was paid as CSV with columns `policy,gpu_type,zone,gpu_hours,usd,usd_per_gpu_hour,on_demand_usd`; the last is what the
/// same GPU time would have cost on demand. A price is empty where no time was paid.
pub fn costs_csv(replay: &Replay) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let written = (|| {
        csv.write_record(["policy", "gpu_type", "zone", "gpu_hours", "usd", "usd_per_gpu_hour", "on_demand_usd"])?;
        for outcome in &replay.policies {
            for spent in &outcome.spending {
                let hours = spent.time.as_gpu_seconds() / 3600.0;
                let price = ratio(spent.usd, hours).map_or_else(String::new, |price| price.to_string());
                let [hours, usd, on_demand] = [hours, spent.usd, spent.on_demand_usd].map(|figure| figure.to_string());
                csv.write_record([outcome.policy, &spent.gpu_type, &spent.zone, &hours, &usd, &price, &on_demand])?;
            }
        }
        csv.flush()
    })();
    written.expect("writing to memory doesn't fail");
    String::from_utf8(csv.into_inner().expect("it was flushed")).expect("names and numbers are UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_row_for_each_type_and_zone() {
        let csv = costs_csv(&fixture::small());
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines[0], "policy,gpu_type,zone,gpu_hours,usd,usd_per_gpu_hour,on_demand_usd");
        assert_eq!(lines[1], "autohet,A100-80,z,0.25,0.5,2,1");
        assert_eq!(lines.len(), 3);
    }
}
