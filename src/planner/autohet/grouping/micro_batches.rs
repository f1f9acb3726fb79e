//! The best shares of the micro batches for given replicas.

/// A replica as the division of micro batches sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// Stages `P`.
    pub stages: u32,
    /// Micro batches per second in steady state, `G / W`.
    pub rate_per_s: f64,
}

impl Pace {
    /// When the replica is done with so many micro batches: `(K + P − 1) / rate`.
    pub fn finish_s(&self, micro_batches: u32) -> f64 {
        f64::from(micro_batches + self.stages - 1) / self.rate_per_s
    }
}

/// Shares `K_j ≥ 1` that sum to `micro_batches` and minimise `max_j (K_j + P_j − 1) / rate_j`. Exact.
///
/// At the work-conserving time `t = (micro_batches + Σ P − D) / Σ rate`, which no division beats, replica `j` is sure to
/// manage `floor(t · rate_j) − P_j + 1`. The few that remain go one by one to the replica that would finish its next one
/// first, which is optimal as finishing times grow with the share.
pub(super) fn divide(paces: &[Pace], micro_batches: u32) -> Vec<u32> {
    let stages: f64 = paces.iter().map(|pace| f64::from(pace.stages - 1)).sum();
    let rate_per_s: f64 = paces.iter().map(|pace| pace.rate_per_s).sum();
    let even_s = (f64::from(micro_batches) + stages) / rate_per_s;
    let sure = |pace: &Pace| (even_s * pace.rate_per_s).floor() - f64::from(pace.stages) + 1.0;
    let mut shares: Vec<u32> = paces.iter().map(|pace| sure(pace).max(1.0) as u32).collect();
    let mut given: u32 = shares.iter().sum();
    while given < micro_batches {
        let next = first_min(paces.iter().zip(&shares).map(|(pace, share)| pace.finish_s(share + 1)));
        shares[next] += 1;
        given += 1;
    }
    // Where a slow replica's single micro batch takes longer than `even_s`, the others can do with less.
    while given > micro_batches {
        let last =
            first_min(paces.iter().zip(&shares).map(
                |(pace, &share)| {
                    if share > 1 { -pace.finish_s(share) } else { f64::INFINITY }
                },
            ));
        shares[last] -= 1;
        given -= 1;
    }
    shares
}

/// Index of the first smallest value.
fn first_min(values: impl Iterator<Item = f64>) -> usize {
    values
        .enumerate()
        .fold((0, f64::INFINITY), |best, (index, value)| if value < best.1 { (index, value) } else { best })
        .0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faster_replica_gets_more() {
        // 3 + 1 micro batches at 3 and 1 a second, one stage each: both done after one second.
        let paces = [Pace { stages: 1, rate_per_s: 3.0 }, Pace { stages: 1, rate_per_s: 1.0 }];
        assert_eq!(divide(&paces, 4), [3, 1]);
        // Five: the fast one takes the fifth, 4/3 s, rather than the slow one, 2 s.
        assert_eq!(divide(&paces, 5), [4, 1]);
    }

    #[test]
    fn even_the_slowest_gets_one() {
        let paces = [Pace { stages: 1, rate_per_s: 100.0 }, Pace { stages: 9, rate_per_s: 1.0 }];
        assert_eq!(divide(&paces, 12), [11, 1]);
    }
}
