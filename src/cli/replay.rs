//! `autohet-sim --trace`: the main job.

use super::args::{Format, JobArgs, ReadingArgs, ReplayArgs};
use super::{Verdict, job, page, print, voice};
use crate::cluster::{Cluster, GpuSpec};
use crate::cost::CostModel;
use crate::elastic::checkpoint::CheckpointInterval;
use crate::elastic::policies;
use crate::elastic::{PlanMemory, Policy};
use crate::plan::Plan;
use crate::replay::{PolicyOutcome, Replay, ReplaySettings, replay};
use crate::report::{
    ResultsFolder, Screen, Summary, SummaryInputs, costs_csv, ledger_csv, perfetto_json, plans_jsonl, policy_table,
    recoveries_csv, throughput_svg, timeline_csv,
};
use crate::runtime::sim::simulate;
use crate::scenario::{Scenario, ScenarioFile, WrittenBy};
use crate::suggest;
use crate::trace::prices::Quotes;
use crate::trace::{self, Align, NodeEvent, NodeEventKind, OfferDefaults, Trace, TraceSource};
use crate::units::{SimTime, format_seconds};
use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most traces that the name of a results folder names.
const MOST_NAMED: usize = 3;

pub(super) fn run(args: &ReplayArgs) -> anyhow::Result<Verdict> {
    let scenario = resolve(args)?;
    let sources = scenario.trace.sources()?;
    let memory = Arc::new(PlanMemory::default());
    let policies = scenario.policies.iter().map(|name| Ok(policy(name)?.remembering(&memory)));
    let policies = policies.collect::<anyhow::Result<Vec<_>>>()?;
    let cost = job::cost_model(&scenario)?;
    let trace = trace::read_all(&sources, &scenario.trace.read_options())?;
    let events = cluster_events(&trace, &sources, &scenario)?;
    let name = name_of(&sources);
    let out = args.out.clone().unwrap_or_else(|| Path::new("results").join(&name));
    ResultsFolder::check(&out)?;
    page::check(args, &sources, &out)?;
    if !args.quiet {
        say_notes(&sources, &trace.notes);
    }
    let quotes = scenario.prices.quotes(&trace)?;
    voice::tell(|| format!("{}, {} of it, {} events", trace.format, trace.span, events.len()));
    let start = Instant::now();
    let mut replay = run_replay(&events, &trace, &policies, &scenario, &cost, args.quiet)?;
    voice::tell(|| format!("replayed in {}", format_seconds(start.elapsed().as_secs_f64())));
    let job = (&cost, scenario.training.precision);
    let priced = replay.settle(&events, quotes.as_ref(), &scenario.prices.tariff(), job)?;
    let trace = with_price_notes(trace, quotes, priced, args.quiet);
    let summary = Summary::new(&SummaryInputs {
        trace_name: &name,
        trace: &trace,
        model: cost.model(),
        global_batch_size: scenario.training.global_batch_size,
        seed: None,
        replay: &replay,
    });
    let folder = ResultsFolder::create(&out)?;
    write_results(&folder, &replay, &summary, &scenario, &cost, &events)?;
    let written = folder.commit()?;
    page::write(args, &name, &replay, &scenario, &cost, &events)?;
    match args.format {
        Format::Json => print(&summary.to_json())?,
        Format::Table => print_table(&replay, &cost.model().name, &scenario, &written)?,
        Format::Csv => print(&summary.records().csv())?,
        Format::Markdown => print(&summary.records().markdown())?,
    }
    Ok(if replay.policies.iter().any(|outcome| outcome.iterations > 0) { Verdict::Good } else { Verdict::Bad })
}

/// The trace with what there is to say of its prices, which is printed too.
fn with_price_notes(mut trace: Trace, quotes: Option<Quotes>, priced: Vec<String>, quiet: bool) -> Trace {
    let notes: Vec<String> = quotes.map(|quotes| quotes.notes).into_iter().flatten().chain(priced).collect();
    if !quiet {
        for note in &notes {
            voice::say(note);
        }
    }
    trace.notes.extend(notes);
    trace
}

/// What the results are called: the traces' names without their folders and endings.
fn name_of(sources: &[TraceSource]) -> String {
    let stem = |source: &TraceSource| {
        source.path.file_stem().map_or_else(|| "trace".into(), |stem| stem.to_string_lossy().into_owned())
    };
    let (named, further) = sources.split_at(sources.len().min(MOST_NAMED));
    let name = named.iter().map(stem).collect::<Vec<_>>().join("+");
    if further.is_empty() { name } else { format!("{name}+{}", further.len()) }
}

/// Prints what was understood of a trace; of several, each note names its file itself.
pub(super) fn say_notes(sources: &[TraceSource], notes: &[String]) {
    for note in notes {
        if let [source] = sources {
            voice::say(&format!("{}: {note}", source.path.display()));
        } else {
            voice::say(note);
        }
    }
}

fn no_trace() -> anyhow::Error {
    anyhow!(
        "no trace was given\nhint: name one, for example `--trace traces/aws-spot.csv`; `--help` shows what else there is"
    )
}

/// Scenario file first, then the arguments.
fn resolve(args: &ReplayArgs) -> anyhow::Result<Scenario> {
    let file = args.scenario.as_deref().map(ScenarioFile::read).transpose()?;
    if let Some(place) = file.as_ref().and_then(|file| file.place_of("cluster")) {
        return Err(anyhow!(
            "{place}: `cluster` is what `plan` and `compare` plan for, a replay has the nodes of its trace\nhint: remove the \
             key, or use `autohet-sim plan --scenario`"
        ));
    }
    let mut scenario = file.map(|file| file.scenario).unwrap_or_default();
    apply_job(&mut scenario, args.policies.as_deref(), &args.job)?;
    if !args.traces.is_empty() {
        scenario.trace.file.clone_from(&args.traces);
    }
    if scenario.trace.file.is_empty() {
        return Err(no_trace());
    }
    scenario.trace.align = args.clock.align.or(scenario.trace.align);
    args.prices.apply(&mut scenario);
    check_align(scenario.trace.align, scenario.trace.file.len())?;
    job::apply_reading(&args.reading, &mut scenario.trace);
    if let Some(seconds) = args.checkpoint_interval_s {
        scenario.checkpoint.interval = CheckpointInterval::Fixed { seconds };
    }
    scenario.written_by =
        Some(WrittenBy { version: env!("CARGO_PKG_VERSION").into(), commit: env!("AUTOHET_COMMIT").into() });
    scenario.check()?;
    Ok(scenario)
}

/// Refuses to set the clocks of one trace.
pub(super) fn check_align(align: Option<Align>, traces: usize) -> anyhow::Result<()> {
    if align.is_some() && traces < 2 {
        return Err(anyhow!("`--align` sets the clocks of several traces, and there is one\nhint: leave it out"));
    }
    Ok(())
}

/// The job and the policies of replays that have no scenario.
pub(super) fn resolve_job(
    policies: Option<&[String]>,
    job: &JobArgs,
    reading: &ReadingArgs,
) -> anyhow::Result<Scenario> {
    let mut scenario = Scenario::default();
    apply_job(&mut scenario, policies, job)?;
    job::apply_reading(reading, &mut scenario.trace);
    scenario.check()?;
    Ok(scenario)
}

fn apply_job(scenario: &mut Scenario, policies: Option<&[String]>, job: &JobArgs) -> anyhow::Result<()> {
    job::apply(job, scenario);
    if let Some(policies) = policies {
        scenario.policies = policies.to_vec();
    }
    scenario.policies = all_of(&scenario.policies)?;
    Ok(())
}

/// The policies by name, with `all` written out.
fn all_of(names: &[String]) -> anyhow::Result<Vec<String>> {
    if names.iter().any(|name| name.trim().is_empty()) {
        let all = policies::NAMES.join(", ");
        return Err(anyhow!("a policy without a name\nhint: name some of {all}, with commas between, or `all`"));
    }
    if !names.iter().any(|name| name == policies::ALL) {
        return Ok(names.to_vec());
    }
    if names.len() > 1 {
        return Err(anyhow!(
            "`{}` beside other policies\nhint: it is all of them: leave out the others",
            policies::ALL
        ));
    }
    Ok(policies::NAMES.map(str::to_owned).to_vec())
}

pub(super) fn policy(name: &str) -> anyhow::Result<Policy> {
    policies::by_name(name)
        .ok_or_else(|| anyhow!("unknown policy `{name}`\nhint: {}", suggest::hint(name, policies::NAMES)))
}

fn cluster_events(trace: &Trace, sources: &[TraceSource], scenario: &Scenario) -> anyhow::Result<Vec<NodeEvent>> {
    let gpu = scenario.trace.gpu_type.as_deref().map(GpuSpec::lookup).transpose()?;
    let node = job::node_defaults(&scenario.network);
    let defaults = OfferDefaults { gpu, gpus_per_node: scenario.trace.gpus_per_node, node };
    let files = sources.iter().map(|source| format!("`{}`", source.path.display())).collect::<Vec<_>>().join(", ");
    trace.cluster_events(&defaults).map_err(|error| anyhow!("{files}: {error}"))
}

/// Replays with a progress bar, which shows itself when it takes more than a second and somebody looks.
fn run_replay(
    events: &[NodeEvent],
    trace: &Trace,
    policies: &[Policy],
    scenario: &Scenario,
    cost: &CostModel,
    quiet: bool,
) -> anyhow::Result<Replay> {
    let total = trace.span * policies.len() as u64;
    let bar = ProgressBar::with_draw_target(Some(total.0), ProgressDrawTarget::hidden());
    bar.set_style(ProgressStyle::with_template("replaying {bar:40} {percent}%  {eta} left")?);
    let shown = !quiet && std::io::stderr().is_terminal();
    let progress = |passed: SimTime| {
        bar.inc(passed.0);
        if shown && bar.is_hidden() && bar.elapsed() > Duration::from_secs(1) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    };
    let settings = ReplaySettings {
        cost,
        training: &scenario.training,
        checkpoint: &scenario.checkpoint,
        reconfiguration: &scenario.reconfiguration,
    };
    let replay = replay(events, trace.span, policies, settings, &progress)?;
    bar.finish_and_clear();
    Ok(replay)
}

fn write_results(
    folder: &ResultsFolder,
    replay: &Replay,
    summary: &Summary,
    scenario: &Scenario,
    cost: &CostModel,
    events: &[NodeEvent],
) -> anyhow::Result<()> {
    let samples = u64::from(scenario.training.global_batch_size);
    let tokens_per_iteration = samples * u64::from(cost.model().seq_length);
    folder.write("resolved.toml", scenario.to_toml())?;
    folder.write("summary.json", summary.to_json())?;
    folder.write("timeline.csv", timeline_csv(replay, tokens_per_iteration))?;
    folder.write("ledger.csv", ledger_csv(replay))?;
    folder.write("costs.csv", costs_csv(replay))?;
    folder.write("recoveries.csv", recoveries_csv(replay))?;
    folder.write("plans.jsonl", plans_jsonl(replay))?;
    folder.write("throughput.svg", throughput_svg(replay, tokens_per_iteration))?;
    if let Some((plan, cluster)) = first_plan(replay, events) {
        let iteration = simulate(plan, &cluster, cost)?;
        let timeline = perfetto_json(plan, &iteration.program, &iteration.timeline, None);
        folder.write("iteration.perfetto.json", timeline)?;
    }
    Ok(())
}

/// The first plan of the first policy whose plan is one on the trace's own nodes, and the nodes that were up then: those of
/// the bound are on nodes without names, and those on demand on others.
pub(super) fn first_plan<'a>(replay: &'a Replay, events: &[NodeEvent]) -> Option<(&'a Plan, Cluster)> {
    replay.policies.iter().find_map(|outcome| {
        let plan = &outcome.plans.first()?.plan;
        let start = outcome.segments.iter().find(|segment| segment.plan == Some(0)).map(|segment| segment.start);
        let cluster = nodes_at(start.unwrap_or_default(), events);
        let is_there = |name: &str| cluster.nodes.iter().any(|node| node.name == name);
        plan.stages().all(|(_, stage)| is_there(&stage.node)).then_some((plan, cluster))
    })
}

/// The nodes that are up at a time, whatever happened to their names before and after.
fn nodes_at(time: SimTime, events: &[NodeEvent]) -> Cluster {
    let mut nodes = BTreeMap::new();
    for event in events.iter().take_while(|event| event.time <= time) {
        match &event.kind {
            NodeEventKind::Up(node) => drop(nodes.insert(node.name.clone(), node.clone())),
            NodeEventKind::Down(name) => drop(nodes.remove(name)),
            NodeEventKind::Notice { .. } | NodeEventKind::Cancelled(_) => {}
        }
    }
    Cluster { nodes: nodes.into_values().collect() }
}

/// What to say of a policy of which no iteration counts.
fn why_no_iterations(outcome: &PolicyOutcome) -> String {
    if outcome.iterations_rolled_back > 0 {
        let lost = outcome.iterations_rolled_back;
        return format!("kept nothing: all of its {lost} iterations were lost with the last copy of the state");
    }
    let too_short = "no set of nodes stayed up long enough to finish an iteration";
    format!("never trained: {}", outcome.refusal.as_deref().unwrap_or(too_short))
}

fn print_table(replay: &Replay, model: &str, scenario: &Scenario, written: &Path) -> anyhow::Result<()> {
    let batch = match scenario.training.global_batch_size {
        1 => "1 sample".to_owned(),
        samples => format!("{samples} samples"),
    };
    let heading = format!("{}, global batch of {batch}, {} of trace\n", model, replay.span);
    let mut text = heading + &policy_table(replay, Screen::of_stdout());
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for outcome in replay.policies.iter().filter(|outcome| outcome.iterations == 0) {
        writeln!(text, "{} {}", outcome.policy, why_no_iterations(outcome))?;
    }
    writeln!(text, "details: {} (start with throughput.svg)", written.display())?;
    print(&text)
}
