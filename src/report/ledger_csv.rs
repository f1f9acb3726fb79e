//! `ledger.csv`: the goodput ledger of each policy, one row a line.

use super::figures::ratio;
use crate::metrics::Activity;
use crate::replay::Replay;

/// The ledgers as CSV with columns `policy,row,gpu_s,share`. Every row of the ledger is there, also those of zero; `share`
/// is of the GPU time paid, and empty where nothing was.
pub fn ledger_csv(replay: &Replay) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let written = (|| {
        csv.write_record(["policy", "row", "gpu_s", "share"])?;
        for outcome in &replay.policies {
            let paid = outcome.ledger.total().as_gpu_seconds();
            for activity in Activity::ALL {
                let gpu_s = outcome.ledger.get(activity).as_gpu_seconds();
                let share = ratio(gpu_s, paid).map_or_else(String::new, |share| share.to_string());
                csv.write_record([outcome.policy, activity.key(), &gpu_s.to_string(), &share])?;
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
    fn every_row_is_there_with_its_share() {
        let csv = ledger_csv(&fixture::small());
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * Activity::ALL.len());
        assert_eq!(lines[..2], ["policy,row,gpu_s,share", "autohet,useful,540,0.5"]);
        assert!(lines.contains(&"autohet,checkpoint_stall,0,0"), "{csv}");
    }

    #[test]
    fn shares_of_nothing_are_empty() {
        assert!(ledger_csv(&fixture::idle()).contains("restart,useful,0,\n"));
    }
}
