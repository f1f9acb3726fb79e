//! The steps of the local search: what one replica, or all of a kind, give and take.

use super::{Kind, merged, used};
use crate::planner::autohet::setting::{Composition, Setting};

/// Units of one class.
type Part = (usize, u16);

/// All groupings that are one step away.
pub fn steps(setting: &Setting, kinds: &[Kind]) -> Vec<Vec<Kind>> {
    let mut all = Vec::new();
    for first in 0..kinds.len() {
        with_idle(setting, kinds, first, &mut all);
        for second in first..kinds.len() {
            between(kinds, first, second, setting.classes.len(), &mut all);
        }
    }
    all
}

fn changed(units: Composition, gives: Option<Part>, takes: Option<Part>) -> Option<Composition> {
    let mut units = units;
    if let Some((class, count)) = gives {
        units.0[class] = units.0[class].checked_sub(count)?;
    }
    if let Some((class, count)) = takes {
        units.0[class] += count;
    }
    // A replica keeps one unit at least.
    (units.units() > 0).then_some(units)
}

/// So many replicas of a kind become others.
fn turned(kinds: &mut Vec<Kind>, from: Composition, into: Composition, replicas: u32) {
    if let Some(kind) = kinds.iter_mut().find(|kind| kind.units == from) {
        kind.replicas -= replicas;
    }
    kinds.push(Kind { units: into, replicas });
}

/// Steps in which a kind, or one replica of it, trades with the idle GPUs. Trading units for units of another degree on the
/// same GPUs is among them.
fn with_idle(setting: &Setting, kinds: &[Kind], first: usize, all: &mut Vec<Vec<Kind>>) {
    let kind = kinds[first];
    let classes = setting.classes.len();
    let present = (0..classes).filter(|&class| kind.units.0[class] > 0);
    for gives in present.map(Some).chain([None]) {
        for takes in (0..classes).filter(|&class| Some(class) != gives).map(Some).chain([None]) {
            for all_units in [false, true] {
                let (mut gives, mut takes) = amounts(setting, gives, takes);
                if all_units {
                    let Some((more, less)) = all_of(setting, kind, gives, takes) else { continue };
                    (gives, takes) = (Some(more), Some(less));
                }
                let Some(units) = changed(kind.units, gives, takes).filter(|&units| units != kind.units) else {
                    continue;
                };
                let most = most_replicas(setting, kinds, kind, gives, takes);
                for replicas in counts(most) {
                    let mut next = kinds.to_vec();
                    turned(&mut next, kind.units, units, replicas);
                    all.push(merged(next));
                }
            }
        }
    }
}

/// All units of a class for as many of another degree as are on the same GPUs.
fn all_of(setting: &Setting, kind: Kind, gives: Option<Part>, takes: Option<Part>) -> Option<(Part, Part)> {
    let ((gives, given), (takes, taken)) = (gives?, takes?);
    let times = kind.units.0[gives] / given;
    let is_more = setting.share_gpus(gives, takes) && times > 1;
    is_more.then_some(((gives, given * times), (takes, taken * times)))
}

/// How many units go for how many: as many as are on the same GPUs, else one for one.
fn amounts(setting: &Setting, gives: Option<usize>, takes: Option<usize>) -> (Option<Part>, Option<Part>) {
    let degree = |class: usize| setting.classes[class].tensor_parallel_size;
    match (gives, takes) {
        (Some(gives), Some(takes)) if setting.share_gpus(gives, takes) => {
            let (more, less) = (degree(takes) / degree(gives), degree(gives) / degree(takes));
            (Some((gives, more.max(1) as u16)), Some((takes, less.max(1) as u16)))
        }
        _ => (gives.map(|class| (class, 1)), takes.map(|class| (class, 1))),
    }
}

/// For how many replicas of the kind there are GPUs.
fn most_replicas(setting: &Setting, kinds: &[Kind], kind: Kind, gives: Option<Part>, takes: Option<Part>) -> u32 {
    let Some((takes, count)) = takes else { return kind.replicas };
    let mut left = used(kinds);
    let enough = |replicas: u32, left: &mut [u32]| {
        if let Some((gives, given)) = gives {
            left[gives] -= u32::from(given) * replicas;
        }
    };
    // What all of the kind give up is there for as many of them as take it.
    enough(kind.replicas, &mut left);
    let by_gpus = setting.free_units(takes, &left) / u32::from(count);
    if by_gpus >= kind.replicas || gives.is_none() {
        return by_gpus.min(kind.replicas);
    }
    // Fewer take, so that fewer give: what stays with the others isn't there.
    let mut left = used(kinds);
    enough(1, &mut left);
    u32::from(setting.free_units(takes, &left) >= u32::from(count))
}

/// One replica, and all that can.
fn counts(most: u32) -> impl Iterator<Item = u32> {
    [1, most].into_iter().take(if most > 1 { 2 } else { most as usize })
}

/// Steps in which replicas of two kinds, or of one, trade with each other: a unit goes one way, and another may come back.
fn between(kinds: &[Kind], first: usize, second: usize, classes: usize, all: &mut Vec<Vec<Kind>>) {
    let pairs =
        if first == second { kinds[first].replicas / 2 } else { kinds[first].replicas.min(kinds[second].replicas) };
    let (a, b) = (kinds[first].units, kinds[second].units);
    let mut push = |gives: Option<Part>, takes: Option<Part>| {
        let (Some(one), Some(other)) = (changed(a, gives, takes), changed(b, takes, gives)) else { return };
        for replicas in counts(pairs) {
            let mut next = kinds.to_vec();
            turned(&mut next, a, one, replicas);
            turned(&mut next, b, other, replicas);
            all.push(merged(next));
        }
    };
    for class in 0..classes {
        if a.0[class] > 0 {
            push(Some((class, 1)), None);
            for back in (0..classes).filter(|&back| back != class && b.0[back] > 0) {
                push(Some((class, 1)), Some((back, 1)));
            }
        }
        if first != second && b.0[class] > 0 {
            push(None, Some((class, 1)));
        }
    }
}
