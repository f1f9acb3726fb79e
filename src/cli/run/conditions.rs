//! From options to what the ranks are made to meet.

use super::args::{Backend, DeviceArgs};
use super::host;
use crate::cli::job::node_defaults;
use crate::cluster::{Cluster, Link, NodeDefaults};
use crate::cost::{CostModel, CostSettings};
use crate::model::ModelSpec;
use crate::plan::Plan;
use crate::plan::cluster_of_plan;
use crate::profile::LayerProfile;
use crate::runtime::device::{Conditions, DeviceError, EmulationError};
use crate::scenario::{NetworkSettings, Scenario};
use crate::training::host_cluster;
use crate::units::format_number;
use anyhow::anyhow;
use std::ops::RangeInclusive;

/// Slowdowns that are believed.
const SLOWDOWN: RangeInclusive<f64> = 1.0..=1000.0;
/// Factors of slow motion that are believed.
const TIME_SCALE: RangeInclusive<f64> = 1e-3..=1e6;

/// What a plan runs on.
pub(super) struct Devices {
    /// What the ranks are told.
    pub(super) conditions: Conditions,
    /// The nodes that are emulated or whose links are; nothing where this machine is taken as it is.
    pub(super) cluster: Option<Cluster>,
    /// Prices of emulated devices.
    pub(super) cost: CostModel,
    backend: Backend,
    time_scale: f64,
    /// By rank of the plan; a plan made after a loss has fewer.
    slowdown: Vec<f64>,
}

impl Devices {
    /// What the ranks of this plan meet.
    pub(super) fn conditions_of(&self, plan: &Plan) -> Result<Conditions, EmulationError> {
        let mut conditions = Conditions::default();
        if let Some(cluster) = &self.cluster {
            if self.backend == Backend::Emulated {
                conditions = Conditions::emulating(plan, cluster, &self.cost, self.time_scale)?;
            }
            conditions = conditions.throttled(plan, cluster, self.time_scale)?;
        }
        conditions.slowdown.clone_from(&self.slowdown);
        Ok(conditions)
    }
}

impl DeviceArgs {
    /// Name of the backend, for everything that is printed and written.
    pub(super) fn backend_name(&self) -> &'static str {
        match self.backend {
            Backend::Cpu => "cpu",
            Backend::Cuda => "cuda",
            Backend::Emulated => "emulated",
        }
    }

    /// Prices of the model on these devices: estimated, or measured where there is a profile.
    pub(super) fn cost_model(&self, model: &ModelSpec) -> anyhow::Result<CostModel> {
        let profile = self.profile.as_deref().map(LayerProfile::read).transpose()?;
        let profile = profile.map(|profile| profile.for_model(&model.name)).transpose()?;
        let is_cpu = self.backend == Backend::Cpu;
        let settings = if is_cpu { host::cost_settings() } else { CostSettings::default() };
        Ok(CostModel::new(model.clone(), settings, profile))
    }

    /// Checks the options against the plan and works out what each rank meets. `traced` are the nodes of a trace, which
    /// go before those that the plan names.
    pub(super) fn resolve(&self, plan: &Plan, model: &ModelSpec, traced: Option<&Cluster>) -> anyhow::Result<Devices> {
        let time_scale = self.checked_time_scale()?;
        let slowdown = self.slowdown_by_rank(plan.world_size())?;
        let cluster = self.cluster(plan, traced)?;
        let cost = self.cost_model(model)?;
        if let (Some(cluster), Backend::Emulated) = (&cluster, self.backend) {
            plan.validate(cluster, &cost).map_err(DeviceError::Plan)?;
        }
        let mut devices =
            Devices { conditions: Conditions::default(), backend: self.backend, time_scale, cluster, slowdown, cost };
        devices.conditions = devices.conditions_of(plan)?;
        Ok(devices)
    }

    /// The nodes that the options describe. On real devices there are none where no option speaks of them.
    fn cluster(&self, plan: &Plan, traced: Option<&Cluster>) -> anyhow::Result<Option<Cluster>> {
        if let Some(described) = self.described()? {
            return Ok(Some(described));
        }
        let is_emulated = self.backend == Backend::Emulated;
        let throttle = self.throttle()?;
        if !is_emulated && throttle.is_none() {
            return Ok(None);
        }
        let defaults = self.node_defaults()?;
        let mut cluster = match traced {
            Some(traced) => traced.clone(),
            None if is_emulated => return Ok(Some(cluster_of_plan(plan, &defaults)?)),
            None => host_cluster(plan, host::CPU),
        };
        cluster.nodes.iter_mut().for_each(|node| node.nic = defaults.nic);
        Ok(Some(cluster))
    }

    /// The interface of each node, where one was asked for.
    pub(super) fn throttle(&self) -> anyhow::Result<Option<Link>> {
        let is_asked_for = self.nic_gbit_per_s.is_some() || self.nic_latency_us.is_some();
        is_asked_for.then(|| Ok(self.node_defaults()?.nic)).transpose()
    }

    /// The nodes of `--cluster`.
    pub(super) fn described(&self) -> anyhow::Result<Option<Cluster>> {
        let Some(cluster) = &self.cluster else { return Ok(None) };
        Ok(Some(Cluster::from_argument(cluster, &self.node_defaults()?)?))
    }

    /// What nodes have where nobody says.
    pub(super) fn node_defaults(&self) -> anyhow::Result<NodeDefaults> {
        let mut scenario = Scenario::default();
        let NetworkSettings { nic_gbit_per_s, nic_latency_us, .. } = &mut scenario.network;
        *nic_gbit_per_s = self.nic_gbit_per_s.unwrap_or(*nic_gbit_per_s);
        *nic_latency_us = self.nic_latency_us.unwrap_or(*nic_latency_us);
        scenario.check()?;
        Ok(node_defaults(&scenario.network))
    }

    fn checked_time_scale(&self) -> anyhow::Result<f64> {
        if !TIME_SCALE.contains(&self.time_scale) {
            let (low, high) = (TIME_SCALE.start(), TIME_SCALE.end());
            let found = format_number(self.time_scale);
            return Err(anyhow!("`--time-scale` is `{found}`, expected {low} to {high}\nhint: 10 is ten times slower"));
        }
        if self.backend != Backend::Emulated && (self.time_scale - 1.0).abs() > 0.0 {
            return Err(anyhow!("`--time-scale` is for emulated devices\nhint: add `--backend emulated`"));
        }
        Ok(self.time_scale)
    }

    /// By rank; empty where no rank is slowed.
    fn slowdown_by_rank(&self, world_size: usize) -> anyhow::Result<Vec<f64>> {
        let Some(given) = &self.slowdown else { return Ok(Vec::new()) };
        let mut factors: Vec<Option<f64>> = vec![None; world_size];
        for part in given {
            let parsed =
                part.split_once(':').and_then(|(rank, factor)| Some((rank.parse().ok()?, factor.parse().ok()?)));
            let (rank, factor): (usize, f64) = parsed.ok_or_else(|| {
                anyhow!("`--slowdown` has `{part}`, expected a rank and a factor\nhint: `0:1.0,1:2.5` slows rank 1")
            })?;
            if !SLOWDOWN.contains(&factor) {
                let (low, high, factor) = (SLOWDOWN.start(), SLOWDOWN.end(), format_number(factor));
                return Err(anyhow!(
                    "`--slowdown` of rank {rank} is `{factor}`, expected {low} to {high}\nhint: a rank can only be slowed"
                ));
            }
            let place = factors.get_mut(rank).ok_or_else(|| {
                anyhow!("`--slowdown` names rank {rank}, the plan has ranks 0 to {}\nhint: ranks count the plan's GPUs, replica by replica", world_size.saturating_sub(1))
            })?;
            if place.replace(factor).is_some() {
                return Err(anyhow!("`--slowdown` names rank {rank} twice\nhint: give each rank one factor"));
            }
        }
        Ok(factors.into_iter().map(|factor| factor.unwrap_or(1.0)).collect())
    }
}
