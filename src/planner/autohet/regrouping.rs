//! The search from a plan that is there: its execution, its numbers of units, and what can be made better of them.

use super::balance::Pace;
use super::candidates::{Candidate, GroupingSearch, kinds_of};
use super::effort::Effort;
use super::mapping::{Job, Neighbours, realise};
use super::pipeline::{Held, Layout};
use super::setting::{Composition, Setting, same_class};
use crate::cluster::Cluster;
use crate::model::{Execution, Recompute};
use crate::plan::{Plan, PlanError, PlanRequest, Replica, Stage};
use rayon::prelude::*;

/// Work of one search at most.
const MAX_WORK: u64 = 300_000;

/// Prices units as a plan executes them.
pub struct Regrouping<'a> {
    request: &'a PlanRequest<'a>,
    setting: Setting,
}

/// Numbers of units that a search found, with their time.
pub struct Regrouped<'a> {
    regrouping: &'a Regrouping<'a>,
    search: GroupingSearch<'a>,
    best: Candidate,
}

impl Regrouped<'_> {
    /// Seconds of an iteration by what the search sees.
    pub fn time_s(&self) -> f64 {
        self.best.time_s
    }

    /// Plans of these numbers of units.
    pub fn plans(mut self) -> Vec<Plan> {
        let PlanRequest { cluster, cost, training, .. } = *self.regrouping.request;
        let job = Job {
            cluster,
            planner: "autohet",
            model: cost.planned_model(),
            global_batch_size: training.global_batch_size,
        };
        let neighbours = [Neighbours::Stages, Neighbours::ALL_REPLICAS];
        neighbours.into_iter().filter_map(|near| realise(&job, &mut self.search, &self.best.kinds, near)).collect()
    }
}

impl<'a> Regrouping<'a> {
    /// For the nodes of the request and the execution of the plan; `None` where its degrees don't divide each other, none of
    /// its units can be formed, or it is for another batch or precision.
    pub fn new(request: &'a PlanRequest<'a>, plan: &Plan) -> Result<Option<Self>, PlanError> {
        if plan.precision != request.training.precision {
            return Ok(None);
        }
        Self::executed(request, plan, (plan.micro_batch_size, plan.recompute))
    }

    /// The same for every other micro-batch size and recompute setting that the request allows.
    pub fn others(request: &'a PlanRequest<'a>, plan: &Plan) -> Result<Vec<Self>, PlanError> {
        let training = request.training;
        let sizes = training.micro_batch_sizes.iter();
        let all = sizes.flat_map(|&size| training.recompute.iter().map(move |&recompute| (size, recompute)));
        let all: Vec<_> = all.filter(|&one| one != (plan.micro_batch_size, plan.recompute)).collect();
        let made = all.into_par_iter().map(|one| Self::executed(request, plan, one));
        Ok(made.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    fn executed(
        request: &'a PlanRequest<'a>,
        plan: &Plan,
        (micro_batch_size, recompute): (u32, Recompute),
    ) -> Result<Option<Self>, PlanError> {
        let degrees = plan.tensor_parallel_sizes();
        let is_chain = degrees.windows(2).all(|pair| pair[1].is_multiple_of(pair[0]));
        let batch = request.training.global_batch_size;
        let is_for_it =
            plan.global_batch_size == batch && micro_batch_size > 0 && batch.is_multiple_of(micro_batch_size);
        if degrees.first().is_none_or(|&least| least == 0) || !is_chain || !is_for_it {
            return Ok(None);
        }
        let execution = Execution { micro_batch_size, recompute, ..plan.execution_at(degrees[0]) };
        let setting = Setting::of_degrees(request.cluster, request.cost, batch, execution, &degrees)?;
        let setting = setting.map(|setting| setting.under(request.judge.schedule(), request.cost));
        Ok(setting.map(|setting| Self { request, setting }))
    }

    /// Micro batches of an iteration.
    pub fn micro_batches(&self) -> u32 {
        self.setting.micro_batches
    }

    /// How stages with their layers run; `None` for GPUs that can't be priced.
    pub fn pace(&self, stages: &[Stage], cluster: &Cluster) -> Option<Pace> {
        let layers: Vec<u32> = stages.iter().map(Stage::layer_count).collect();
        Some(self.layout(stages, cluster)?.pace(&self.setting, &layers))
    }

    /// The best layers of stages in their order, in a plan of so many replicas; `None` where they can't hold the model.
    pub fn layers(&self, stages: &[Stage], replicas: u32, cluster: &Cluster) -> Option<Vec<u32>> {
        let layout = self.layout(stages, cluster)?;
        let micro_batches = self.setting.most_micro_batches(self.setting.micro_batches.div_ceil(replicas.max(1)));
        layout
            .pipeline(&self.setting, self.setting.micro_batches, Held { micro_batches, replicas })
            .map(|pipeline| pipeline.layers)
    }

    fn layout(&self, stages: &[Stage], cluster: &Cluster) -> Option<Layout> {
        let classes = stages.iter().map(|stage| self.class_of(stage, cluster)).collect::<Option<Vec<_>>>()?;
        let boundaries = classes.windows(2).zip(stages.windows(2));
        let transfer_s = boundaries.map(|(c, s)| self.setting.transfer_s(c[0], c[1], s[0].node == s[1].node)).collect();
        Some(Layout { classes, transfer_s })
    }

    fn class_of(&self, stage: &Stage, cluster: &Cluster) -> Option<usize> {
        let node = &cluster.nodes[cluster.find(&stage.node)?.index()];
        let degree = stage.tensor_parallel_size();
        let classes = &self.setting.classes;
        classes.iter().position(|c| c.tensor_parallel_size == degree && same_class(&c.gpu, c.nic, node))
    }

    /// What a local search finds from the numbers of units of this plan.
    pub fn improved(&'a self, from: &Plan) -> Option<Regrouped<'a>> {
        let composition = |replica: &Replica| {
            let mut units = Composition::default();
            for stage in &replica.stages {
                units.0[self.class_of(stage, self.request.cluster)?] += 1;
            }
            Some(units)
        };
        let replicas = from.replicas.iter().map(composition).collect::<Option<Vec<_>>>()?;
        let mut search = GroupingSearch::new(&self.setting, replicas.len() as u32);
        let start = search.evaluate(kinds_of(&replicas))?;
        let best = search.improve(start, &mut Effort::new(&self.request.limits).at_most(MAX_WORK));
        Some(Regrouped { regrouping: self, search, best })
    }
}
