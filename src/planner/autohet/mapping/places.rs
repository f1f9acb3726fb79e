//! Which node serves which stage.

use crate::cluster::Cluster;
use crate::planner::autohet::pipeline::Pipeline;
use crate::planner::autohet::setting::{ClassCosts, Setting, same_class};
use std::collections::BTreeSet;

/// A unit of a node: GPUs from this one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitPlace {
    pub node: usize,
    pub first_gpu: u32,
}

/// Which stages share nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbours {
    /// Stages of one replica: activations stay within nodes.
    Stages,
    /// Equal stages of so many replicas: their gradients are reduced within nodes.
    Replicas(usize),
}

impl Neighbours {
    /// Equal stages of all replicas.
    pub const ALL_REPLICAS: Self = Self::Replicas(usize::MAX);
}

/// Gives every stage a unit of its class. Runs of stages are placed longest first, each into the node with the least room
/// that holds the whole run, or else filling up the node with the most room, so that the members of a run share nodes.
/// Larger degrees go first: then a node's free GPUs always make whole units of the next.
pub fn place_units(
    cluster: &Cluster,
    setting: &Setting,
    pipelines: &[Pipeline],
    neighbours: Neighbours,
) -> Vec<Vec<UnitPlace>> {
    let mut rooms = Rooms::new(cluster, setting);
    let unplaced = UnitPlace { node: usize::MAX, first_gpu: 0 };
    let mut places: Vec<Vec<UnitPlace>> = pipelines.iter().map(|p| vec![unplaced; p.classes.len()]).collect();
    let mut runs = match neighbours {
        Neighbours::Stages => runs_of_stages(pipelines),
        Neighbours::Replicas(together) => runs_of_replicas(setting, pipelines, together),
    };
    let degree = |run: &Run| setting.classes[run.class].tensor_parallel_size;
    runs.sort_by_key(|run| std::cmp::Reverse(degree(run)));
    for run in runs {
        let degree = degree(&run);
        let pool = rooms.pool_of_class[run.class];
        let mut members = run.members.as_slice();
        while !members.is_empty() {
            let (node, free) = rooms.choose(pool, degree, members.len() as u32);
            let (here, later) = members.split_at(members.len().min((free / degree) as usize));
            for &(replica, stage) in here {
                let first_gpu = rooms.take(pool, node, degree);
                places[replica][stage] = UnitPlace { node, first_gpu };
            }
            members = later;
        }
    }
    places
}

/// Free GPUs of all nodes, by pool and number.
struct Rooms {
    /// Per class, the pool of nodes with its GPUs.
    pool_of_class: Vec<usize>,
    /// Per pool and number of free GPUs, the nodes.
    nodes: Vec<Vec<BTreeSet<usize>>>,
    free: Vec<u32>,
    gpu_count: Vec<u32>,
}

impl Rooms {
    fn new(cluster: &Cluster, setting: &Setting) -> Self {
        let pool = |class: usize| (0..class).find(|&first| setting.share_gpus(first, class)).unwrap_or(class);
        let most = cluster.nodes.iter().map(|node| node.gpu_count).max().unwrap_or(0) as usize;
        let mut nodes = vec![vec![BTreeSet::new(); most + 1]; setting.classes.len()];
        for (index, node) in cluster.nodes.iter().enumerate() {
            let is_its = |class: &ClassCosts| same_class(&class.gpu, class.nic, node);
            if let Some(first) = setting.classes.iter().position(is_its) {
                nodes[first][node.gpu_count as usize].insert(index);
            }
        }
        let gpu_count: Vec<u32> = cluster.nodes.iter().map(|node| node.gpu_count).collect();
        let pool_of_class = (0..setting.classes.len()).map(pool).collect();
        Self { pool_of_class, nodes, free: gpu_count.clone(), gpu_count }
    }

    /// The node for a run of so many units, and its free GPUs.
    fn choose(&self, pool: usize, degree: u32, units: u32) -> (usize, u32) {
        let by_free = &self.nodes[pool];
        let snug = (units.saturating_mul(degree) as usize..by_free.len()).find(|&free| !by_free[free].is_empty());
        let roomiest = || (degree as usize..by_free.len()).rev().find(|&free| !by_free[free].is_empty());
        let free = snug.or_else(roomiest).expect("groupings use no more units than there are");
        (*by_free[free].first().expect("not empty"), free as u32)
    }

    /// Takes a unit of the node, and says where it begins.
    fn take(&mut self, pool: usize, node: usize, degree: u32) -> u32 {
        let free = self.free[node];
        self.nodes[pool][free as usize].remove(&node);
        self.nodes[pool][(free - degree) as usize].insert(node);
        self.free[node] = free - degree;
        self.gpu_count[node] - free
    }
}

/// Stages of one class that are to share nodes, as replica and stage.
struct Run {
    class: usize,
    members: Vec<(usize, usize)>,
}

/// Neighbouring stages of one class within a replica, longest run first.
fn runs_of_stages(pipelines: &[Pipeline]) -> Vec<Run> {
    let mut runs = Vec::new();
    for (replica, pipeline) in pipelines.iter().enumerate() {
        let mut first = 0;
        for run in pipeline.classes.chunk_by(|a, b| a == b) {
            let members = (first..first + run.len()).map(|stage| (replica, stage)).collect();
            runs.push(Run { class: run[0], members });
            first += run.len();
        }
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.members.len()));
    runs
}

/// All stages of one class over so many replicas, in the order of their first layers: one run per class.
fn runs_of_replicas(setting: &Setting, pipelines: &[Pipeline], together: usize) -> Vec<Run> {
    let mut runs = Vec::new();
    for (block, pipelines) in pipelines.chunks(together.min(pipelines.len()).max(1)).enumerate() {
        let mut by_layer: Vec<Vec<(u32, usize, usize)>> = vec![Vec::new(); setting.classes.len()];
        for (place, pipeline) in pipelines.iter().enumerate() {
            let replica = block.saturating_mul(together) + place;
            let mut first_layer = 0;
            for (stage, (&class, &layers)) in pipeline.classes.iter().zip(&pipeline.layers).enumerate() {
                by_layer[class].push((first_layer, replica, stage));
                first_layer += layers;
            }
        }
        runs.extend(by_layer.into_iter().enumerate().map(|(class, mut stages)| {
            stages.sort_unstable();
            Run { class, members: stages.into_iter().map(|(_, replica, stage)| (replica, stage)).collect() }
        }));
    }
    runs
}
