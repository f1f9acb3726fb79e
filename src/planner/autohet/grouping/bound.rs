//! What no grouping can beat.

use super::GroupingProblem;

/// A lower bound in seconds on the objective of every grouping; infinite where there are fewer units than replicas.
///
/// Work conservation: each replica meets `T · G_j ≥ W (K_j + P_j − 1)`. Summed over the `D` replicas, with `n = Σ P_j`
/// units in use, `T · Σ_j G_j ≥ W (micro_batches + n − D)`. At most the `n` fastest units are behind `Σ_j G_j`, and
/// `D ≤ n ≤ min(units, D · layers)`, so
///
/// ```text
/// T ≥ min_n  W (micro_batches − D + n) / (rate of the n fastest)
/// ```
///
/// Memory and whole micro batches are left out, and so is the bubble's being paid by replicas of different speed, so the
/// bound holds whatever they do. It is met where equal replicas can be formed, as with equal units that `D` divides.
pub fn lower_bound(problem: &GroupingProblem) -> f64 {
    let mut classes: Vec<_> = problem.classes.iter().map(|class| (class.layer_rate_per_s, class.units)).collect();
    classes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let replicas = u64::from(problem.replicas);
    let most = replicas * u64::from(problem.layers);
    let work = problem.work_layers();
    let (mut used, mut rate_per_s, mut least_s) = (0_u64, 0.0, f64::INFINITY);
    for (class_rate_per_s, units) in classes {
        // Within a class the quotient is monotone in n, so its ends are enough; the first may lie at n = D.
        let last = (used + u64::from(units)).min(most);
        for n in [used.max(replicas), last] {
            if n >= replicas && n <= last && n > used {
                let total_rate_per_s = rate_per_s + (n - used) as f64 * class_rate_per_s;
                least_s =
                    least_s.min(work * (u64::from(problem.micro_batches) - replicas + n) as f64 / total_rate_per_s);
            }
        }
        rate_per_s += (last - used) as f64 * class_rate_per_s;
        used = last;
    }
    least_s
}
