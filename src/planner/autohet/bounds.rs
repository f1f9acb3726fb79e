//! Lower bounds on the iteration time of every plan in the searched space.
//!
//! # Work conservation
//!
//! Take one setting `(t, b, recompute)` and `D` replicas. Let replica `j` have `P` stages with times `τ_p` for one micro
//! batch (forward and backward), `K` micro batches and time `T_j`; let `φ` be at least the share of the forward pass in
//! any block's time, `r_p` the seconds of one layer on stage `p`, `g_p = 1 / r_p`.
//!
//! 1. Under 1F1B, stage `p` runs at most `n = min(K, P - p)` forward passes before its first backward pass. That one can't
//!    start before the first micro batch went down to the last stage and back to `p`. Afterwards the stage still does `K`
//!    backward and `K - n` forward passes, and the last micro batch's backward pass still goes to stage 0:
//!    `T_j ≥ Σ_q τ_q + (K - 1) τ_p - (n - 1) f_p ≥ S + (K - 1 - (P - 1) φ) τ_p` with `S = Σ_q τ_q`.
//! 2. Each micro batch passes all `L` layers, the embedding and the head, whose times on the stage that holds them are at
//!    least as much as `w` layers there: `Σ_p g_p τ_p ≥ W = L + w`. So `S ≥ W / g_max`.
//! 3. With `d = K - 1 - (P - 1) φ`, (1) gives `d W ≤ d Σ_p g_p τ_p ≤ G_j (T_j - S)`, `G_j = Σ_p g_p`. Hence, also where
//!    `d ≤ 0`: `K ≤ 1 + (P - 1) φ + G_j (T_j / W - 1 / g_max)`.
//! 4. Summed over the replicas, with `Σ K_j = B / b`, at most `N` units of total rate `G`, and `T ≥ T_j`:
//!    `B / b ≤ D (1 - φ) + N φ + G (T / W - 1 / g_max)`, which bounds `T` from below.
//!
//! And each stage does all of its replica's work, `T_j ≥ K_j τ_p`, so that `K_j W ≤ G_j T_j`: summed, `T ≥ W B / (b G)`.
//!
//! A second argument counts in that layers are whole and memory is finite. A unit of class `c` holds `m_c` layers at most,
//! so with `x_j = (T_j - S) / d` it does at most `h_c(x_j) = min(⌊g_c x_j⌋, m_c)` layers, and `L ≤ Σ_c n_jc h_c(x_j)`, while
//! (3) reads `K_j ≤ 1 + (P - 1) φ + T' / x_j` with `T' = T - L / g_max`. How much `Σ_j T' / x_j` can be is bounded by weak
//! duality: at prices `π_c` per unit and `μ ≥ 0` per replica with `T'/x ≤ μ + L π_c / h_c(x)` for all `x` and `c`, it is at
//! most `D μ + Σ_c N_c π_c`. For a given `μ` the least prices are found at the steps `x = l r_c`, `l ≤ m_c`, though not below
//! `x = T'/K`: no replica does more than all micro batches. Any `μ` gives a bound, and the best is looked for.
//!
//! Both arguments hold with transfers and gradient synchronisation, which only add time. One thing they add is sure to show: the
//! embedding's gradient is the last one reduced, when no backward pass is left to hide it ([`reductions`]). The optimizer
//! step of a stage follows its last reduction, and the last of all is a first stage's: it holds the embedding and a layer
//! at least. Nothing assumes that stages are balanced, or that replicas are alike.
//!
//! # What networks show
//!
//! A stage reduces a block's gradient when the last backward pass has left the block, one block after the other, so that it
//! takes `K τ_p` less the backward passes of its `l_p` layers and, from then on, `l_p` reductions of `ρ_c` at least. With
//! `κ = min_c (ρ_c - b_c) / r_c` this counts as `κ` micro batches more in (3): `T ≥ (W B/b + D L κ) / G`, less the
//! embedding's time, which only a first stage has behind its layers; and likewise with what is ahead of a stage.
//!
//! A replica is within one node or not. If it isn't, each of its micro batches crosses a network interface, one after the
//! other, while nothing else of the first and of the last micro batch that crosses is done: `T ≥ W / g_max + K c`. If it is,
//! it has the units of a node only; and where there are more replicas than units in a node, all gradients of the model leave
//! the node through its interface, none before all forward passes are done: `T ≥ K f_p + R` for each stage `p`. Either
//! bounds `K`, and some replica has `B / (b D)` micro batches. Both are in the program below for each number of micro batches,
//! and so is, where a unit fills its node, that the interface carries what the stage sends and reduces.
//!
//! # The bound over columns
//!
//! The two bounds above are quick; the third one is tight. It asks of each time `T` whether it is *too short*, and halves in
//! on the longest that is. In `T` seconds without the optimizer step, a replica with `K` micro batches, whose stage `p` of
//! class `c` has `l` layers and `q` stages behind it, meets
//!
//! 1. *compute*: stage `p` begins when the first micro batch has come down to it. Its first backward pass begins when that one
//!    is back, or when it has done its `n = min(K, q + 1)` first forward passes; then `K` backward and `K - n` forward passes
//!    remain, and the way back up. With the fastest class's times for the blocks elsewhere and a round trip for each
//!    boundary, `Σ_(others) τ + K τ_p - (n - 1) f_p + tail ≤ T`. In the tail are the reductions of layer 0, as far as the
//!    embedding's backward pass doesn't hide it, and of the embedding;
//! 2. *reduction*: a rank reduces one block after the other, from when the last backward pass has left the first of them. So
//!    `T` is at least what the stage has computed by then, `Σ_(ahead) f + K τ_p + Σ_(behind) τ - (n - 1) f_p` less its own
//!    later blocks' backward passes, and the reductions of all its blocks: `l` times at least a ring through the network,
//!    where `D` holders don't fit a node;
//! 3. *memory*: `l` layers, and the embedding or the head, fit with `n` micro batches in flight.
//!
//! For given `K`, `c`, `q` and "is it the first stage", each of the three is linear in `l` and so gives the most layers of the
//! stage. A replica is possible if its stages hold `L` layers, and the replicas together do `B / b` micro batches with the
//! units that there are. Where units are few, all counts of them are gone through and replicas are whole ([`whole`]); else a
//! replica may be taken a broken number of times, and linear programming says how many micro batches can be done at most
//! ([`program`]), with dynamic programming for the replicas ([`columns`]). Either is a relaxation: it forgets where nodes end,
//! that links are shared, that replicas of one iteration see the same gradients late, and the order of classes within a replica
//! as far as it matters to memory of unlike stages.
//!
//! Where stages may differ in degree, sums over units are at most what each GPU can add to them at its best degree
//! ([`Setting::most_of`]), and in the program over replicas units share the GPUs of a class. GPipe is covered too: the last
//! stage does all of its forward passes before its first backward pass, so that `T_j ≥ S + (K - 1) τ_p`.
//!
//! [`reductions`]: reductions::Reductions

mod columns;
mod program;
mod reductions;
mod whole;

use super::setting::{ClassCosts, Setting};
use crate::planner::room::Ends;
use columns::Columns;
use reductions::Reductions;

/// The runtime rounds each pass to whole nanoseconds; the bound gives way by more than that can add up to.
const ROUNDING: f64 = 1.0 - 1e-6;

/// No plan of this setting with `replicas` replicas takes less time, in seconds. Networks hardly count: it orders points for a
/// search that doesn't know them well either.
pub fn lower_bound_s(setting: &Setting, replicas: u32) -> f64 {
    let classes = &setting.classes;
    let fastest = classes.iter().map(|class| class.layer_s).fold(f64::INFINITY, f64::min);
    let rate = rate_of_fastest(setting, setting.units().min(replicas.saturating_mul(setting.num_layers)));
    let forward_share = classes.iter().map(|class| class.forward_share).fold(0.0, f64::max);
    let units = f64::from(setting.units().min(replicas.saturating_mul(setting.num_layers)));
    let hidden = f64::from(replicas) * (1.0 - forward_share) + units * forward_share;
    let steady = (f64::from(setting.micro_batches) - hidden).max(0.0) / rate;
    let conserved = f64::from(setting.micro_batches) / rate;
    let last_s = reductions::embedding_s(setting, replicas);
    let work_s = work_layers(setting) * (fastest + steady).max(conserved);
    (work_s + last_s) * ROUNDING + setting.optimizer_s
}

/// What networks show at least, in seconds: reductions that no backward pass of their stage hides, and boundaries.
fn network_bound_s(setting: &Setting, replicas: u32) -> f64 {
    let classes = &setting.classes;
    let least = |of: fn(&ClassCosts) -> f64| classes.iter().map(of).fold(f64::INFINITY, f64::min);
    let most_units = setting.units().min(replicas.saturating_mul(setting.num_layers));
    let rate = rate_of_fastest(setting, most_units);
    let forward_share = classes.iter().map(|class| class.forward_share).fold(0.0, f64::max);
    let (replicas_f, units) = (f64::from(replicas), f64::from(most_units));
    let (micro_batches, layers) = (f64::from(setting.micro_batches), f64::from(setting.num_layers));
    let reductions = Reductions::new(setting, replicas);
    let (work, forward_s) = (work_layers(setting), least(|class| class.layer_forward_s));
    // In micro batches' work for each layer.
    let shown = |ahead_s: f64| {
        let of_class = |(class, reduce_s): (&ClassCosts, &f64)| {
            (reduce_s - (class.layer_s - class.layer_forward_s) - ahead_s) / class.layer_s
        };
        classes.iter().zip(&reductions.layer_s).map(of_class).fold(f64::INFINITY, f64::min) * layers * replicas_f
    };
    let late_s = (work * micro_batches + shown(0.0).max(0.0)) / rate;
    let filled = work * (micro_batches - (units - replicas_f).max(0.0) * forward_share) + shown(forward_s);
    let late_s = late_s.max(layers * forward_s + filled / rate);
    let embedding_s = classes.iter().map(|class| class.embedding_s).fold(0.0, f64::max);
    // Who reduces last may have a shorter optimizer step than a first stage.
    let late_s = late_s - embedding_s - setting.optimizer_s;
    late_s.max(crossing_bound_s(setting, replicas, &reductions)) * ROUNDING + setting.optimizer_s
}

/// Of pipelines that are within a node or not: in seconds without the optimizer step.
fn crossing_bound_s(setting: &Setting, replicas: u32, reductions: &Reductions) -> f64 {
    let classes = &setting.classes;
    let least = |of: &dyn Fn(&ClassCosts) -> f64| classes.iter().map(of).fold(f64::INFINITY, f64::min);
    let share = f64::from(setting.micro_batches) / f64::from(replicas);
    let work = work_layers(setting);
    let crossing_s = work * least(&|class| class.layer_s) + share * transfer_across_s(setting);
    // The units of one node at their best degree.
    let node_rate = |index: usize| {
        let same = || (0..classes.len()).filter(|&other| setting.share_gpus(index, other)).map(|other| &classes[other]);
        let per_gpu = same().map(|class| class.layer_rate_per_s() / f64::from(class.tensor_parallel_size));
        let gpus = same().map(|class| f64::from(class.units_per_node * class.tensor_parallel_size));
        per_gpu.fold(0.0, f64::max) * gpus.fold(0.0, f64::max)
    };
    let micro_batch_s = 1.0 / (0..classes.len()).map(node_rate).fold(0.0, f64::max);
    let forward_share = least(&|class| class.layer_forward_s / class.layer_s);
    let forward_s = share * f64::from(setting.num_layers) * forward_share * micro_batch_s;
    let reduced_s = forward_s + reductions.of_node_s - setting.optimizer_s;
    crossing_s.min((share * work * micro_batch_s).max(reduced_s))
}

/// What one micro batch over a boundary between nodes keeps the fastest interface busy for.
fn transfer_across_s(setting: &Setting) -> f64 {
    let fastest = setting.classes.iter().map(|class| class.nic.bytes_per_s).fold(0.0, f64::max);
    setting.boundary_bytes / fastest
}

/// No plan of this setting takes less time under any schedule, in seconds: each stage does all of its replica's work, and then
/// updates its weights.
pub fn conserved_bound_s(setting: &Setting) -> f64 {
    let rate = rate_of_fastest(setting, setting.units());
    let conserved_s = work_layers(setting) * f64::from(setting.micro_batches) / rate;
    conserved_s * ROUNDING + setting.optimizer_s
}

/// Total rate of the so many fastest units, layers per second. Each stage has a layer, so that no more than `D L` are used.
fn rate_of_fastest(setting: &Setting, units: u32) -> f64 {
    if setting.has_several_degrees() {
        return setting.most_of(super::setting::ClassCosts::layer_rate_per_s);
    }
    let mut left = units;
    let mut rate = 0.0;
    // Classes are sorted by rate.
    for class in &setting.classes {
        let used = class.units.min(left);
        rate += f64::from(used) * class.layer_rate_per_s();
        left -= used;
    }
    rate
}

/// The bound that counts whole layers, memory and networks in; never below [`lower_bound_s`], and some ten microseconds slower.
pub fn memory_bound_s(setting: &Setting, replicas: u32) -> f64 {
    let simple_s = lower_bound_s(setting, replicas);
    let classes = &setting.classes;
    let forward_share = classes.iter().map(|class| class.forward_share).fold(0.0, f64::max);
    let fastest = classes.iter().map(|class| class.layer_s).fold(f64::INFINITY, f64::min);
    let units = f64::from(setting.units().min(replicas.saturating_mul(setting.num_layers)));
    let hidden = f64::from(replicas) * (1.0 - forward_share) + units * forward_share;
    let needed = f64::from(setting.micro_batches) - hidden;
    let least_fill_s = f64::from(setting.num_layers) * fastest;
    // The simple bound is feasible or not; above, time is doubled until it is, then halved in on.
    let last_s = reductions::embedding_s(setting, replicas);
    let mut too_short_s = ((simple_s - setting.optimizer_s) / ROUNDING - last_s - least_fill_s).max(0.0);
    let mut enough_s = too_short_s.max(least_fill_s);
    while most_steady_micro_batches(setting, replicas, enough_s) < needed {
        too_short_s = enough_s;
        enough_s *= 2.0;
        if !enough_s.is_finite() {
            break;
        }
    }
    for _ in 0..BISECTIONS {
        let middle_s = f64::midpoint(too_short_s, enough_s);
        *(if most_steady_micro_batches(setting, replicas, middle_s) < needed {
            &mut too_short_s
        } else {
            &mut enough_s
        }) = middle_s;
    }
    let whole_s = (least_fill_s + too_short_s + last_s) * ROUNDING + setting.optimizer_s;
    simple_s.max(whole_s).max(network_bound_s(setting, replicas))
}

/// Cuts of an interval; what is left of it only makes the bound a little weaker.
const BISECTIONS: usize = 10;

/// At least `Σ_j T' / x_j`: the best dual value over `μ` by ternary search, convex in `μ`.
fn most_steady_micro_batches(setting: &Setting, replicas: u32, steady_s: f64) -> f64 {
    let value = |price_per_replica: f64| dual_value(setting, replicas, steady_s, price_per_replica);
    let (mut low, mut high) = (0.0, f64::from(setting.micro_batches));
    let mut least = value(low).min(value(high));
    for _ in 0..BISECTIONS {
        let third = (high - low) / 3.0;
        let (left, right) = (value(low + third), value(high - third));
        least = least.min(left).min(right);
        *(if left < right { &mut high } else { &mut low }) = if left < right { high - third } else { low + third };
    }
    least
}

/// `D μ + Σ_c N_c π_c` with the least prices for this `μ`.
fn dual_value(setting: &Setting, replicas: u32, steady_s: f64, price_per_replica: f64) -> f64 {
    let middle = Ends { embedding: false, head: false };
    let shortest_s = steady_s / f64::from(setting.micro_batches);
    let prices = setting.most_of(|class| {
        let price = |layers: u32| {
            let period_s = (f64::from(layers) * class.layer_s).max(shortest_s);
            (steady_s / period_s - price_per_replica).max(0.0) * f64::from(layers)
        };
        (1..=class.max_layers(middle, 1)).map(price).fold(0.0, f64::max)
    });
    f64::from(replicas) * price_per_replica + prices / f64::from(setting.num_layers)
}

/// The bound over columns, as far as it lies below `enough_s`: the longest time that is proven too short, to a thousandth,
/// and never below `known_s`, a bound already. Takes the steps of the dynamic program off `work`; without any left, the
/// bound is what was proven so far.
pub fn column_bound_s(setting: &Setting, replicas: u32, (known_s, enough_s): (f64, f64), work: &mut u64) -> f64 {
    let reductions = Reductions::new(setting, replicas);
    let mut is_too_short = |time_s: f64| {
        if *work == 0 {
            return false;
        }
        let time_s = (time_s - setting.optimizer_s) / ROUNDING;
        if let Some(proven) = whole::is_too_short(setting, replicas, (&reductions, time_s), work) {
            return proven;
        }
        let mut columns = Columns::new(setting, &reductions, (time_s, replicas, 0), *work);
        let proven = program::is_too_short(setting, replicas, &mut columns);
        *work = work.saturating_sub(columns.work);
        proven
    };
    if known_s >= enough_s || is_too_short(enough_s) {
        return enough_s;
    }
    let (mut too_short_s, mut open_s) = (known_s, enough_s);
    while open_s > too_short_s * (1.0 + PRECISION) {
        let middle_s = f64::midpoint(too_short_s, open_s);
        *(if is_too_short(middle_s) { &mut too_short_s } else { &mut open_s }) = middle_s;
    }
    too_short_s
}

/// How exactly [`column_bound_s`] is found.
const PRECISION: f64 = 1e-3;

/// Most replicas that the cluster can hold: each has at least one unit (two where its
/// stages need neighbours), one micro batch and memory for every layer.
pub fn most_replicas(setting: &Setting) -> u32 {
    let middle = Ends { embedding: false, head: false };
    let layers = setting.most_of(|class| f64::from(class.max_layers(middle, 1)));
    let by_memory = (layers / f64::from(setting.num_layers.max(1)) + 1e-6) as u32;
    by_memory.min(setting.units() / setting.least_depth()).min(setting.micro_batches)
}

/// Work of one micro batch in layers, `W`.
fn work_layers(setting: &Setting) -> f64 {
    let least = |fixed_s: fn(&ClassCosts) -> f64| {
        setting.classes.iter().map(|class| fixed_s(class) / class.layer_s).fold(f64::INFINITY, f64::min)
    };
    f64::from(setting.num_layers) + least(|class| class.embedding_s) + least(|class| class.head_s)
}
