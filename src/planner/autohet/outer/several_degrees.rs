//! The search where each stage may have a tensor-parallel degree of its own.
//!
//! It starts from the best groupings of one degree, and trades units for such of another degree on the same GPUs, in one
//! replica or in all of a kind. So its plans are no worse than theirs by what the search sees.

use super::{Outer, Point};
use crate::cost::CostError;
use crate::model::Execution;
use crate::plan::{Plan, PlanError};
use crate::planner::autohet::candidates::{Candidate, GroupingSearch, Kind, merged};
use crate::planner::autohet::effort::Effort;
use crate::planner::autohet::setting::{Composition, MAX_CLASSES, Setting};
use rayon::prelude::*;

/// Groupings of one degree that the search starts from.
const MAX_STARTS: usize = 6;
/// Of these, with the same micro-batch size, recompute setting and number of replicas.
const MAX_STARTS_ALIKE: usize = 2;
/// Work of one search at most.
const MAX_WORK: u64 = 600_000;

/// One setting for each that differs in more than the degree; none where only one degree is possible.
pub fn settings(
    of_one: &[Setting],
    make: impl Fn(Execution, &[u32]) -> Result<Option<Setting>, CostError> + Sync,
) -> Result<Vec<Setting>, PlanError> {
    let mut wanted = Vec::new();
    let mut done: Vec<Execution> = Vec::new();
    for setting in of_one {
        let alike = |one: &&Setting| apart_from_degree(&one.execution) == apart_from_degree(&setting.execution);
        let mut degrees: Vec<u32> = of_one.iter().filter(alike).map(|one| one.execution.tensor_parallel_size).collect();
        degrees.sort_unstable();
        degrees.dedup();
        // Units of degrees that don't divide each other wouldn't fill nodes.
        let is_chain = degrees.windows(2).all(|pair| pair[1].is_multiple_of(pair[0]));
        if degrees.len() < 2 || !is_chain || done.contains(&apart_from_degree(&setting.execution)) {
            continue;
        }
        done.push(apart_from_degree(&setting.execution));
        let execution = Execution { sequence_parallel: true, ..setting.execution };
        wanted.push((execution, degrees));
    }
    let made = wanted.into_par_iter().map(|(execution, degrees)| make(execution, &degrees));
    let several = made.collect::<Vec<_>>().into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(several.into_iter().flatten().filter(Setting::has_several_degrees).collect())
}

fn apart_from_degree(execution: &Execution) -> Execution {
    Execution { tensor_parallel_size: 1, sequence_parallel: true, ..*execution }
}

impl Outer<'_> {
    /// Plans whose stages may differ in degree, from the best groupings of one degree.
    pub(super) fn with_several_degrees(
        &self,
        improved: &[(f64, Point, Candidate)],
        effort: &mut Effort,
    ) -> Result<Vec<(f64, Plan)>, PlanError> {
        let mut starts: Vec<(Execution, u32, &Setting, Vec<Kind>)> = Vec::new();
        for (_, point, candidate) in improved {
            let from = &self.settings[point.setting];
            let execution = apart_from_degree(&from.execution);
            let is_same = |setting: &&Setting| apart_from_degree(&setting.execution) == execution;
            let Some(setting) = self.of_several_degrees.iter().find(is_same) else { continue };
            let Some(kinds) = translated(from, setting, &candidate.kinds) else { continue };
            let alike = starts.iter().filter(|start| start.0 == execution && start.1 == point.replicas).count();
            if alike < MAX_STARTS_ALIKE && !starts.iter().any(|start| start.0 == execution && start.3 == kinds) {
                starts.push((execution, point.replicas, setting, kinds));
            }
        }
        // The best of each micro-batch size and recompute setting first: which of them gains most isn't known before.
        let place = |at: usize| starts[..at].iter().filter(|start| start.0 == starts[at].0).count();
        let places: Vec<usize> = (0..starts.len()).map(place).collect();
        let mut ordered: Vec<_> = places.into_iter().zip(starts).collect();
        ordered.sort_by_key(|(place, _)| *place);
        let mut starts: Vec<_> = ordered.into_iter().map(|(_, start)| start).collect();
        starts.truncate(if effort.is_spent() { 0 } else { MAX_STARTS });
        let part = effort.at_most(MAX_WORK.min(effort.left() / (2 * MAX_STARTS as u64)));
        let searched = starts.into_par_iter().map(|(_, replicas, setting, kinds)| {
            let mut search = GroupingSearch::new(setting, replicas);
            let Some(start) = search.evaluate(kinds) else { return Ok((None, 0)) };
            let mut left = part;
            let found = search.improve(start, &mut left);
            Ok((self.realise(&mut search, &found)?, part.left() - left.left()))
        });
        let mut plans = Vec::new();
        for (plan, work) in searched.collect::<Result<Vec<_>, PlanError>>()? {
            effort.spend(work);
            plans.extend(plan);
        }
        Ok(plans)
    }
}

/// The same replicas in terms of another setting's classes; `None` where it doesn't have them all.
pub fn translated(from: &Setting, to: &Setting, kinds: &[Kind]) -> Option<Vec<Kind>> {
    let mut class_of = [None; MAX_CLASSES];
    for (class, of) in from.classes.iter().zip(&mut class_of) {
        *of = to.find_class(class);
    }
    let kind = |kind: &Kind| {
        let mut units = Composition::default();
        for (&count, class) in kind.units.0.iter().zip(class_of).filter(|(count, _)| **count > 0) {
            units.0[class?] += count;
        }
        Some(Kind { units, replicas: kind.replicas })
    };
    kinds.iter().map(kind).collect::<Option<_>>().map(merged)
}
