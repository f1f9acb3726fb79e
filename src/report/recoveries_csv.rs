//! `recoveries.csv`: every change of plan, one a line: when, why, what it lost, and what its time and bytes went into.

use crate::replay::Replay;

const COLUMNS: [&str; 14] = [
    "policy",
    "start_s",
    "end_s",
    "cause",
    "lost_iterations",
    "attempts_overtaken",
    "detect_s",
    "plan_s",
    "connect_s",
    "fetch_s",
    "own_memory_bytes",
    "own_disk_bytes",
    "peers_bytes",
    "object_store_bytes",
];

/// The recoveries of all policies as CSV, in the order of policies and times; the first start of each policy is none.
/// Columns:
///
/// - `policy`, `start_s` (training stops), `end_s` (it goes on);
/// - `cause`: `loss`, `notice`, `join`, or `resume` after a wait;
/// - `lost_iterations`: iterations rolled back; `attempts_overtaken`: changes cut off by a further loss before this one;
/// - `detect_s`, `plan_s`, `connect_s`, `fetch_s`: parts of the last attempt, which add up to `end_s - start_s` where none
///   was overtaken;
/// - `own_memory_bytes`, `own_disk_bytes`, `peers_bytes`, `object_store_bytes`: state by where the nodes of the last attempt
///   had or read it.
pub fn recoveries_csv(replay: &Replay) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(COLUMNS).expect("writing to memory doesn't fail");
    for outcome in &replay.policies {
        for recovery in &outcome.recoveries {
            let (time, fetched) = (recovery.time, recovery.fetched);
            let row = (
                (outcome.policy, recovery.start.as_seconds(), recovery.end.as_seconds(), recovery.cause),
                (recovery.lost_iterations, recovery.attempts_overtaken),
                [time.detect, time.plan, time.connect, time.fetch].map(crate::units::SimTime::as_seconds),
                [fetched.own_memory, fetched.own_disk, fetched.peers, fetched.object_store],
            );
            csv.serialize(row).expect("writing to memory doesn't fail");
        }
    }
    String::from_utf8(csv.into_inner().expect("writing to memory doesn't fail")).expect("names and numbers are UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elastic::ReconfigurationTime;
    use crate::replay::FetchedBytes;
    use crate::report::fixture;

    #[test]
    fn a_line_says_all_of_a_recovery() {
        let mut replay = fixture::small();
        let at = fixture::at;
        let recovery = &mut replay.policies[0].recoveries[0];
        recovery.time = ReconfigurationTime { detect: at(4), plan: at(3), connect: at(2), fetch: at(1) };
        recovery.fetched = FetchedBytes { own_memory: 5, own_disk: 6, peers: 7, object_store: 8 };
        recovery.attempts_overtaken = 9;
        let csv = recoveries_csv(&replay);
        assert_eq!(
            csv.lines().collect::<Vec<_>>(),
            [
                COLUMNS.join(",").as_str(),
                "autohet,40.0,50.0,loss,1,9,4.0,3.0,2.0,1.0,5,6,7,8",
                "autohet,75.0,80.0,join,0,0,0.0,0.0,0.0,0.0,0,0,0,0",
                "restart,40.0,95.0,resume,0,0,0.0,0.0,0.0,0.0,0,0,0,0",
            ]
        );
    }

    #[test]
    fn without_recoveries_the_columns_stand_alone() {
        assert_eq!(recoveries_csv(&fixture::idle()), COLUMNS.join(",") + "\n");
    }
}
