//! `autohet-sim recommend`.

use super::args::{Format, ObjectiveName, RecommendArgs};
use super::progress::Progress;
use super::{Verdict, files, job, print, print_json, voice};
use crate::cluster::GpuSpec;
use crate::model::Precision;
use crate::plan::{Goal, Objective};
use crate::recommend::{MOST_MIXES, Offer, Question, RatedMix, Recommendation, Risk, affordable, rate, risks_of_trace};
use crate::report::{FrontPoint, Records, Screen, front_svg, rounded};
use crate::runtime::MAX_RANKS;
use crate::scenario::Scenario;
use crate::sweep::{Shared, in_parallel};
use crate::trace::{self, ReadOptions};
use anyhow::anyhow;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

pub(super) fn run(args: &RecommendArgs) -> anyhow::Result<Verdict> {
    let inputs: Vec<&Path> = args.trace.iter().chain(&args.job.profile).map(PathBuf::as_path).collect();
    files::check_kept(&inputs, &[("--plot", args.plot.as_deref())])?;
    args.plot.as_deref().map(files::check_writable).transpose()?;
    let question = question(args)?;
    let mixes = affordable(&question.offers, args.budget_usd_per_hour).map_err(|count| {
        anyhow!(
            "the budget pays for {count} mixes or more, at most {MOST_MIXES} are planned\nhint: name fewer types, a lower \
             `--most-nodes` or budget, or more `--gpus-per-node`"
        )
    })?;
    if mixes.is_empty() {
        return Err(anyhow!(
            "the budget pays for no node of these types\nhint: raise `--budget-usd-per-hour`, or rent smaller nodes with \
             `--gpus-per-node`"
        ));
    }
    voice::tell(|| format!("the budget pays for {} mixes", mixes.len()));
    let answer = Recommendation::new(&question, rate_all(args, &question, &mixes)?);
    if let Some(path) = &args.plot {
        files::write_files(&[(path.as_path(), plot(&question, &answer).as_bytes())])?;
    }
    match args.format {
        Format::Table => print(&text(args, &question, &answer, mixes.len()))?,
        Format::Json => print_json(&json!({
            "budget_usd_per_hour": args.budget_usd_per_hour,
            "mixes": mixes.len(),
            "front": records(&question, &answer).json(),
            "recommended": answer.chosen.map(|place| answer.mixes[place].mix.clone()),
            "commands": answer.chosen.map(|place| commands(args, &question, &answer.mixes[place])),
        }))?,
        Format::Markdown => print(&records(&question, &answer).markdown())?,
        Format::Csv => print(&records(&question, &answer).csv())?,
    }
    if answer.chosen.is_none() {
        eprintln!("{}", nothing(&answer));
    }
    Ok(if answer.chosen.is_some() { Verdict::Good } else { Verdict::Bad })
}

fn nothing(answer: &Recommendation) -> String {
    let why = if answer.mixes.is_empty() {
        "no mix within the budget fits the job\nhint: raise the budget, or name GPU types with more memory"
    } else {
        "no mix within the budget is fast enough\nhint: raise the budget, or lower `--min-tokens-per-s`"
    };
    format!("error: {why}")
}

fn question(args: &RecommendArgs) -> anyhow::Result<Question> {
    let mut scenario = Scenario::default();
    job::apply(&args.job, &mut scenario);
    scenario.check()?;
    scenario.cost_model()?;
    let mut offers: Vec<Offer> = Vec::new();
    for text in &args.types {
        let offer = offer(text, args)?;
        if offers.iter().any(|known| known.gpu.name == offer.gpu.name) {
            return Err(anyhow!("GPU type `{}` is named twice\nhint: name each type once", offer.gpu.name));
        }
        offers.push(offer);
    }
    let goal = match args.objective {
        ObjectiveName::Throughput => Goal::Throughput,
        ObjectiveName::UsdPerToken => Goal::UsdPerToken,
    };
    let objective =
        Objective { goal, min_tokens_per_s: args.min_tokens_per_s, max_usd_per_hour: Some(args.budget_usd_per_hour) };
    let risks = risks(args, &offers)?;
    Ok(Question { scenario, offers, risks, objective, effort: args.effort.into() })
}

/// `A100-80`, or `A100-80:1.9` with the price of a GPU-hour.
fn offer(text: &str, args: &RecommendArgs) -> anyhow::Result<Offer> {
    let (name, price) = text.split_once(':').map_or((text, None), |(name, price)| (name, Some(price)));
    let gpu = GpuSpec::lookup(name)?;
    let usd_per_gpu_hour = match price {
        None => gpu.spot_usd_per_hour,
        Some(price) => price.parse().ok().filter(|price| (1e-4..=1e6).contains(price)).ok_or_else(|| {
            anyhow!("`{text}`: the price is `{price}`\nhint: write the dollars of a GPU-hour: `{}:1.9`", gpu.name)
        })?,
    };
    Ok(Offer { gpu, gpus_per_node: args.gpus_per_node, most_nodes: args.most_nodes, usd_per_gpu_hour })
}

fn risks(args: &RecommendArgs, offers: &[Offer]) -> anyhow::Result<Option<Vec<Risk>>> {
    if let Some(losses_per_node_hour) = args.losses_per_node_hour {
        let risk = Risk { losses_per_node_hour, away_hours: args.away_minutes / 60.0 };
        return Ok(Some(vec![risk; offers.len()]));
    }
    let Some(path) = &args.trace else { return Ok(None) };
    let format = args.trace_format;
    let options = ReadOptions { format, gpus_per_node: Some(args.gpus_per_node), ..ReadOptions::default() };
    let trace = trace::read_with(path, &options)?;
    let Some((risks, unknown)) = risks_of_trace(&trace, offers) else {
        return Err(anyhow!("`{}`: no node is ever up\nhint: name a trace with nodes", path.display()));
    };
    if !unknown.is_empty() && !args.quiet {
        let names = unknown.join(", ");
        eprintln!("note: the trace has no {names}: what all its nodes do together is taken for them");
    }
    Ok(Some(risks))
}

fn rate_all(args: &RecommendArgs, question: &Question, mixes: &[Vec<u32>]) -> anyhow::Result<Vec<RatedMix>> {
    let shared = Shared::default();
    let progress = Progress::new(mixes.len(), args.quiet)?;
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN);
    let mut rated = Vec::new();
    let done = in_parallel(
        jobs,
        mixes,
        |mix| rate(question, mix, &shared),
        |_, mix| {
            rated.extend(mix?);
            progress.step();
            Ok::<(), String>(())
        },
    );
    progress.end("");
    done.map_err(|problem| anyhow!("{problem}"))?;
    Ok(rated)
}

/// The front, the fastest first.
fn records(question: &Question, answer: &Recommendation) -> Records {
    let mut columns = vec![
        ("recommended", ""),
        ("mix", "mix"),
        ("gpus", "GPUs"),
        ("tokens_per_s", "tokens/s"),
        ("usd_per_hour", "USD/h"),
        ("usd_per_million_tokens", "USD per\n10^6 tokens"),
    ];
    if question.risks.is_some() {
        columns.extend([
            ("expected_tokens_per_s", "expected\ntokens/s"),
            ("expected_usd_per_hour", "expected\nUSD/h"),
            ("expected_usd_per_million_tokens", "expected USD\nper 10^6"),
        ]);
    }
    let mut records = Records::new(&columns);
    for &place in &answer.front {
        let RatedMix { mix, whole, expected, counts, .. } = &answer.mixes[place];
        let gpus: u32 = counts.iter().zip(&question.offers).map(|(count, offer)| count * offer.gpus_per_node).sum();
        let mark = if Some(place) == answer.chosen { "*" } else { "" };
        let mut row: Vec<Value> = vec![mark.into(), mix.as_str().into(), gpus.into()];
        let plans = if question.risks.is_some() { vec![whole, expected] } else { vec![whole] };
        for plan in plans {
            row.extend([plan.tokens_per_s, plan.usd_per_hour, plan.usd_per_million_tokens()].map(rounded));
        }
        records.push(row);
    }
    records
}

fn text(args: &RecommendArgs, question: &Question, answer: &Recommendation, asked: usize) -> String {
    let job = &question.scenario;
    let written = "writing to a string doesn't fail";
    let mut text = format!(
        "{}, global batch size {}: {asked} mixes for at most {} USD/h, {} of them fit, {} are beaten by none\n",
        job.model,
        job.training.global_batch_size,
        args.budget_usd_per_hour,
        answer.mixes.len(),
        answer.front.len(),
    );
    if let Some(risks) = &question.risks {
        for (offer, risk) in question.offers.iter().zip(risks) {
            let (name, losses, up) = (&offer.gpu.name, risk.losses_per_node_hour, risk.availability() * 100.0);
            writeln!(text, "{name}: {losses:.3} losses a node-hour, up {up:.1} % of the time").expect(written);
        }
    }
    text += &records(question, answer).table(Screen::of_stdout());
    if let Some(place) = answer.chosen {
        writeln!(text, "\nrecommended: {}, with", answer.mixes[place].mix).expect(written);
        for command in commands(args, question, &answer.mixes[place]) {
            writeln!(text, "  {command}").expect(written);
        }
    }
    text
}

/// What plans for the mix and trains on it.
fn commands(args: &RecommendArgs, question: &Question, mix: &RatedMix) -> Vec<String> {
    let Scenario { model, training, .. } = &question.scenario;
    let has_prices =
        question.offers.iter().any(|offer| offer.usd_per_gpu_hour.to_bits() != offer.gpu.spot_usd_per_hour.to_bits());
    let cluster = if has_prices { PRICED } else { &mix.mix };
    let mut plan = format!("autohet-sim plan --cluster {cluster} --model {model}");
    let mut add = |option: &str, value: Option<String>| {
        if let Some(value) = value {
            plan = std::mem::take(&mut plan) + " --" + option + " " + &value;
        }
    };
    add("global-batch-size", Some(training.global_batch_size.to_string()));
    let job = &args.job;
    // The same speed as fp16, and what can be trained.
    let has_bf16 = rented(question, mix).all(|offer| offer.gpu.bf16_flops_per_s.is_some());
    let precision = job.precision.or_else(|| has_bf16.then_some(Precision::Bf16)).unwrap_or(training.precision);
    add("precision", Some(format!("{precision:?}").to_lowercase()));
    let quoted = |path: &Path| path.display().to_string();
    job.profile.iter().for_each(|path| add("profile", Some(quoted(path))));
    add("nics-per-node", job.nics_per_node.map(|count| count.to_string()));
    add("nic-gbit-per-s", job.nic_gbit_per_s.map(|speed| speed.to_string()));
    add("nic-latency-us", job.nic_latency_us.map(|latency| latency.to_string()));
    let framework = job.framework.and_then(|framework| {
        let names = crate::cost::Framework::NAMES;
        names.into_iter().find(|name| crate::cost::Framework::preset(name) == Some(framework))
    });
    add("framework", framework.map(str::to_owned));
    if job.zero1 {
        plan += " --zero1";
    }
    let mut commands: Vec<String> = has_prices.then(|| write_cluster(question, mix)).into_iter().collect();
    commands.extend([plan + " --out plan.json", training_command(question, mix, precision)]);
    commands
}

/// The types that a mix has nodes of.
fn rented<'a>(question: &'a Question, mix: &'a RatedMix) -> impl Iterator<Item = &'a Offer> {
    question.offers.iter().zip(&mix.counts).filter(|(_, count)| **count > 0).map(|(offer, _)| offer)
}

/// What trains on a mix, or why nothing here does.
fn training_command(question: &Question, mix: &RatedMix, precision: Precision) -> String {
    let nodes: u32 = mix.counts.iter().sum();
    let gpus: u32 = mix.counts.iter().zip(&question.offers).map(|(count, offer)| count * offer.gpus_per_node).sum();
    if precision == Precision::Fp16 {
        "# autohet-run trains in bf16 and fp32: to train with it, ask with `--precision`".to_owned()
    } else if gpus as usize > MAX_RANKS {
        format!("# autohet-run trains on {MAX_RANKS} GPUs at most")
    } else if nodes > 1 {
        "autohet-run --plan plan.json --hosts nodes.txt --secret-file secret --listen 0.0.0.0:29400".to_owned()
    } else {
        "autohet-run --plan plan.json".to_owned()
    }
}

/// Where the mix is written with its prices, which its notation doesn't have.
const PRICED: &str = "cluster.toml";

/// What writes it, for any shell that has POSIX's `printf`.
fn write_cluster(question: &Question, mix: &RatedMix) -> String {
    let rented = question.offers.iter().zip(&mix.counts).filter(|(_, count)| **count > 0);
    let nodes = rented.map(|(offer, count)| {
        let usd = offer.usd_per_gpu_hour * f64::from(offer.gpus_per_node);
        let (gpus, name) = (offer.gpus_per_node, &offer.gpu.name);
        format!("[[nodes]]\\ncount = {count}\\ngpus = {gpus}\\ntype = \"{name}\"\\nprice_usd_per_hour = {usd:?}\\n")
    });
    format!("printf '{}' > {PRICED}", nodes.collect::<String>())
}

fn plot(question: &Question, answer: &Recommendation) -> String {
    let point = |(place, mix): (usize, &RatedMix)| FrontPoint {
        tokens_per_s: mix.expected.tokens_per_s,
        usd_per_million_tokens: mix.expected.usd_per_million_tokens(),
        name: answer.front.contains(&place).then(|| mix.mix.clone()),
        is_chosen: answer.chosen == Some(place),
    };
    let points: Vec<FrontPoint> = answer.mixes.iter().enumerate().map(point).collect();
    let expected = if question.risks.is_some() { ", losses counted in" } else { "" };
    front_svg(&format!("{}: what mixes train, and at what price{expected}", question.scenario.model), &points)
}
