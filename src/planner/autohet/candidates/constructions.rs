//! Groupings to start from.

use super::{Kind, merged};
use crate::planner::autohet::setting::{Composition, Setting};

/// Groupings of so many replicas, of a setting of one degree. They may not fit.
pub fn constructions(setting: &Setting, replicas: u32) -> Vec<Vec<Kind>> {
    let by_rate: Vec<usize> = (0..setting.classes.len()).collect();
    let mut by_memory = by_rate.clone();
    by_memory.sort_by_key(|&class| std::cmp::Reverse(setting.classes[class].gpu.memory_bytes));
    let rate = |class: usize| setting.classes[class].layer_rate_per_s();
    let memory = |class: usize| setting.classes[class].gpu.memory_bytes as f64;
    // A slow class can cost more than it brings, so the slowest ones are left idle one after another.
    let mut all: Vec<Vec<Kind>> = Vec::new();
    for classes in (1..=setting.classes.len()).rev() {
        let units: Vec<u32> = setting.classes.iter().take(classes).map(|class| class.units).collect();
        all.push(dealt(&units, replicas));
        // And what doesn't go into equal replicas.
        let equal: Vec<u32> = units.iter().map(|units| units / replicas * replicas).collect();
        all.push(dealt(&equal, replicas));
    }
    all.push(by_class(setting, replicas));
    all.push(cut_line(setting, replicas, &by_rate, rate));
    for order in [by_rate, by_memory] {
        all.push(cut_line(setting, replicas, &order, memory));
    }
    let mut distinct: Vec<Vec<Kind>> = Vec::with_capacity(all.len());
    for construction in all {
        if !distinct.contains(&construction) {
            distinct.push(construction);
        }
    }
    distinct
}

/// Units of each class dealt out in turn, one class after the other: replicas as alike as can be.
pub fn dealt(units: &[u32], replicas: u32) -> Vec<Kind> {
    // Each class gives one more to a run of replicas, which begins where the last class's run ended.
    let mut runs = Vec::with_capacity(units.len());
    let mut cuts = vec![0, replicas];
    let mut next = 0;
    for &count in units {
        let end = next + count % replicas;
        cuts.extend([next, end.min(replicas), end.saturating_sub(replicas)]);
        runs.push((next, end));
        next = end % replicas;
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut kinds = Vec::with_capacity(cuts.len());
    for piece in cuts.windows(2) {
        let mut group = Composition::default();
        for (class, (&count, &(start, end))) in units.iter().zip(&runs).enumerate() {
            let one_more = (start..end).contains(&piece[0]) || piece[0] + replicas < end;
            group.0[class] = (count / replicas + u32::from(one_more)) as u16;
        }
        kinds.push(Kind { units: group, replicas: piece[1] - piece[0] });
    }
    merged(kinds)
}

/// Replicas of one class each: classes get replicas by their share of the total rate.
fn by_class(setting: &Setting, replicas: u32) -> Vec<Kind> {
    let rates: Vec<f64> =
        setting.classes.iter().map(|class| f64::from(class.units) * class.layer_rate_per_s()).collect();
    let mut counts = vec![0_u32; rates.len()];
    for _ in 0..replicas {
        let per_replica = |class: usize| rates[class] / f64::from(counts[class] + 1);
        let open = (0..rates.len()).filter(|&class| counts[class] < setting.classes[class].units);
        if let Some(next) = open.max_by(|&a, &b| per_replica(a).total_cmp(&per_replica(b))) {
            counts[next] += 1;
        }
    }
    let mut kinds = Vec::new();
    for (class, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let units = setting.classes[class].units;
        for (each, replicas) in [(units / count, count - units % count), (units / count + 1, units % count)] {
            let mut group = Composition::default();
            group.0[class] = each as u16;
            kinds.push(Kind { units: group, replicas });
        }
    }
    merged(kinds)
}

/// All units in a line, class by class, cut into pieces of about equal weight.
fn cut_line(setting: &Setting, replicas: u32, order: &[usize], weight: impl Fn(usize) -> f64) -> Vec<Kind> {
    let total: f64 = order.iter().map(|&class| f64::from(setting.classes[class].units) * weight(class)).sum();
    let mut groups = vec![Composition::default(); replicas as usize];
    let mut passed = 0.0;
    for &class in order {
        for _ in 0..setting.classes[class].units {
            let middle = passed + weight(class) / 2.0;
            let group = ((middle / total * f64::from(replicas)) as usize).min(groups.len() - 1);
            groups[group].0[class] += 1;
            passed += weight(class);
        }
    }
    super::kinds_of(&groups)
}
