//! Time against GPUs: what an event costs in clusters of 64 to 8,192 GPUs.
//!
//! A replica is eight stages on eight nodes of eight GPUs, tensor-parallel within the node, so that activations, gradients and
//! reductions all pass one network interface a node; there are as many replicas as there are GPUs for. An event is an
//! instruction that ends: a pass, a message at either end, a member's reduction, an optimizer step.

use autohet::cluster::{Cluster, NodeDefaults};
use autohet::cost::{CostModel, CostSettings, Framework};
use autohet::ids::Rank;
use autohet::model::{ModelSpec, Precision, Recompute};
use autohet::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, Stage};
use autohet::program::{LowerOptions, Program};
use autohet::runtime::drive;
use autohet::runtime::sim::{PricedProgram, SimBackend};
use plotters::prelude::*;
use std::fmt::Write as _;
use std::time::Instant;

const GPUS: [u32; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
const STAGES: u32 = 8;
const GPUS_PER_NODE: u32 = 8;
const MICRO_BATCHES: u32 = 32;
const MODEL: &str = "gpt3-6.7b";
/// The best of so many.
const TRIES: u32 = 5;
const FOLDER: &str = "results/benchmarks";

/// What one cluster took.
struct Row {
    framework: &'static str,
    gpus: u32,
    events: usize,
    lower_s: f64,
    price_s: f64,
    run_s: f64,
}

impl Row {
    fn nanoseconds(&self) -> f64 {
        self.run_s * 1e9 / self.events as f64
    }
}

/// Measures and writes `simulator-scaling.csv` and `.svg`.
pub fn run() {
    let mut rows = Vec::new();
    for framework in ["plain", "megatron-lm"] {
        for gpus in GPUS {
            let row = measure(framework, gpus);
            println!(
                "{framework} {gpus} GPUs: {} events, {:.1} ms, {:.0} ns an event, {:.2} million events a second",
                row.events,
                row.run_s * 1e3,
                row.nanoseconds(),
                1e3 / row.nanoseconds()
            );
            rows.push(row);
        }
    }
    std::fs::create_dir_all(FOLDER).expect("a folder for results");
    std::fs::write(format!("{FOLDER}/simulator-scaling.csv"), csv(&rows)).expect("the table is written");
    draw(&rows);
}

fn plan(replicas: u32, num_layers: u32) -> Plan {
    let layers = num_layers / STAGES;
    let stage = |replica: u32, stage: u32| Stage {
        node: format!("a100-80-{}", replica * STAGES + stage),
        gpus: (0..GPUS_PER_NODE).collect(),
        gpu_type: "A100-80".into(),
        first_layer: stage * layers,
        num_layers: layers,
        later_chunks: Vec::new(),
    };
    let replica = |r| Replica { micro_batches: MICRO_BATCHES, stages: (0..STAGES).map(|p| stage(r, p)).collect() };
    Plan {
        schema_version: SCHEMA_VERSION,
        planner: "bench".into(),
        model: MODEL.into(),
        global_batch_size: replicas * MICRO_BATCHES,
        micro_batch_size: 1,
        sequence_parallel: true,
        recompute: Recompute::Selective,
        precision: Precision::Fp16,
        schedule: ScheduleKind::OneForwardOneBackward,
        replicas: (0..replicas).map(replica).collect(),
    }
}

fn measure(framework: &'static str, gpus: u32) -> Row {
    let model = ModelSpec::preset(MODEL).expect("a preset");
    let preset = Framework::preset(framework).expect("a preset");
    let cost = CostModel::new(model.clone(), CostSettings::default(), None).with_framework(preset);
    let nodes = gpus / GPUS_PER_NODE;
    let mix = format!("{nodes}x{GPUS_PER_NODE}xA100-80");
    let cluster = Cluster::parse_mix(&mix, &NodeDefaults::default()).expect("a cluster");
    let plan = plan(gpus / (STAGES * GPUS_PER_NODE), model.num_layers);
    let ranks: Vec<Rank> = (0..gpus as usize).map(Rank::from).collect();
    let mut best = Row { framework, gpus, events: 0, lower_s: f64::MAX, price_s: f64::MAX, run_s: f64::MAX };
    for _ in 0..TRIES {
        let start = Instant::now();
        let program = Program::lower(&plan, LowerOptions::of(&cost));
        best.lower_s = best.lower_s.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let priced = PricedProgram::new(&plan, &program, &cluster, &cost).expect("prices");
        best.price_s = best.price_s.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let timeline = drive(&program, &ranks, &mut SimBackend::new(&program, &priced)).expect("it runs");
        best.run_s = best.run_s.min(start.elapsed().as_secs_f64());
        best.events = timeline.spans.len();
    }
    best
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("framework,gpus,events,lower_s,price_s,run_s,nanoseconds_per_event,events_per_s\n");
    for row in rows {
        let Row { framework, gpus, events, lower_s, price_s, run_s } = row;
        let nanoseconds = row.nanoseconds();
        writeln!(
            text,
            "{framework},{gpus},{events},{lower_s:.6},{price_s:.6},{run_s:.6},{nanoseconds:.1},{:.0}",
            1e9 / nanoseconds
        )
        .expect("writing to a string doesn't fail");
    }
    text
}

/// Nanoseconds of an event against GPUs.
fn draw(rows: &[Row]) {
    let path = format!("{FOLDER}/simulator-scaling.svg");
    let area = SVGBackend::new(&path, (760, 420)).into_drawing_area();
    area.fill(&WHITE).expect("drawing");
    let most = rows.iter().map(Row::nanoseconds).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .caption("Time of an event against GPUs in the cluster", ("sans-serif", 18))
        .margin(12)
        .margin_right(36)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d((50.0_f64..10_000.0).log_scale(), 0.0..most * 1.25)
        .expect("drawing");
    chart
        .configure_mesh()
        .x_desc("GPUs")
        .y_desc("nanoseconds an event, one core")
        .x_label_formatter(&|gpus| format!("{gpus:.0}"))
        .y_label_formatter(&|nanoseconds| format!("{nanoseconds:.0}"))
        .draw()
        .expect("drawing");
    for (framework, color) in [("plain", RGBColor(0, 90, 160)), ("megatron-lm", RGBColor(200, 90, 0))] {
        let of =
            || rows.iter().filter(|row| row.framework == framework).map(|row| (f64::from(row.gpus), row.nanoseconds()));
        chart
            .draw_series(LineSeries::new(of(), color.stroke_width(2)).point_size(4))
            .expect("drawing")
            .label(framework)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    let mut labels = chart.configure_series_labels();
    labels
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK.mix(0.3))
        .background_style(WHITE)
        .draw()
        .expect("drawing");
    area.present().expect("the figure is written");
}
