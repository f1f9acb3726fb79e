//! Why a plan is what it is, for people.

use super::Screen;
use super::grid::{align_right, empty_table, trimmed};
use crate::explain::{Alternative, Binding, Choice, Explanation, Limit, Remedy, StageFacts};
use crate::report::figures::{ABSENT, or_absent, percent};
use crate::units::format_seconds;
use comfy_table::{Cell, ContentArrangement};
use std::fmt::Write as _;

const NEVER: &str = "writing to a string doesn't fail";
/// Speed-ups below this aren't worth a word.
const WORTH_SAYING: f64 = 1.005;

/// An explanation in paragraphs and tables that fit the screen.
pub fn explanation_text(explanation: &Explanation, screen: Screen) -> String {
    let mut text = String::new();
    let mut say = |title: &str, body: &str| writeln!(text, "\n{title}\n{body}").expect(NEVER);
    say("Stages", &stage_table(explanation, screen));
    say("What binds", &wrapped(&binding(explanation), screen));
    say("What was rejected", &rejected_table(explanation, screen));
    say("What would help", &wrapped(&remedies(&explanation.remedies), screen));
    text
}

/// The stages, replicas that are alike in one.
fn stage_table(explanation: &Explanation, screen: Screen) -> String {
    let mut table = empty_table(screen);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
    table.set_header([
        "replica",
        "stage",
        "GPUs",
        "layers",
        "micro\nbatch",
        "busy",
        "peak memory\nof capacity",
        "with a layer\nmore",
    ]);
    for (replicas, stages) in alike(&explanation.stages) {
        for (index, stage) in stages.iter().enumerate() {
            let once = if index == 0 { numbers(&replicas) } else { String::new() };
            let gigabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e9);
            let capacity = gigabytes(stage.memory_capacity_bytes);
            let more = if stage.has_room() { "fits" } else { "doesn't fit" };
            table.add_row([
                Cell::new(once),
                Cell::new(index),
                Cell::new(devices(stage)),
                Cell::new(stage.num_layers),
                Cell::new(format_seconds(stage.period_s)),
                Cell::new(percent(stage.busy_share)),
                Cell::new(format!("{}/{capacity} GB", gigabytes(stage.peak_memory_bytes))),
                Cell::new(format!("{}: {more}", gigabytes(stage.one_more_layer_bytes))),
            ]);
        }
    }
    align_right(&mut table, [3, 4, 5, 6]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    trimmed(&table)
}

/// Replicas of equal stages together, by their numbers.
fn alike(stages: &[Vec<StageFacts>]) -> Vec<(Vec<usize>, &[StageFacts])> {
    let key = |stage: &StageFacts| (stage.gpu_type.clone(), stage.gpus, stage.num_layers, stage.peak_memory_bytes);
    let mut groups: Vec<(Vec<usize>, &[StageFacts])> = Vec::new();
    for (replica, of_replica) in stages.iter().enumerate() {
        let known = groups.iter_mut().find(|(_, known)| known.iter().map(key).eq(of_replica.iter().map(key)));
        match known {
            Some((replicas, _)) => replicas.push(replica),
            None => groups.push((vec![replica], of_replica)),
        }
    }
    groups
}

/// `0-3, 7`.
fn numbers(replicas: &[usize]) -> String {
    let runs = replicas.chunk_by(|a, b| a + 1 == *b);
    let write = |run: &[usize]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    runs.map(write).collect::<Vec<_>>().join(", ")
}

fn devices(stage: &StageFacts) -> String {
    if stage.gpus == 1 { stage.gpu_type.clone() } else { format!("{} x {}", stage.gpus, stage.gpu_type) }
}

fn binding(explanation: &Explanation) -> Vec<String> {
    let Explanation { bottleneck, stages, time, links, .. } = explanation;
    let of_replica = &stages[bottleneck.replica];
    let slowest = &of_replica[bottleneck.stage];
    let place = |index: usize| format!("stage {index} ({})", devices(&of_replica[index]));
    let list = |indices: &[usize]| indices.iter().map(|&index| place(index)).collect::<Vec<_>>().join(", ");
    let mut said = vec![format!(
        "Stage {} of replica {} ({}, {} layers) sets the pace: {} a micro batch, busy {} of the time.",
        bottleneck.stage,
        bottleneck.replica,
        devices(slowest),
        slowest.num_layers,
        format_seconds(slowest.period_s),
        percent(slowest.busy_share)
    )];
    said.push(match &bottleneck.binding {
        Binding::OneStage => "It is the only stage of its replica, there is none that could take a layer.".to_owned(),
        Binding::Granularity => {
            "A layer more would make any other stage of the replica slower than it is: the split is even to the layer."
                .to_owned()
        }
        Binding::Memory { stages } => {
            format!("Memory binds: with a layer more {} would still be faster, but has no room for it.", list(stages))
        }
        Binding::Communication { stages } => format!(
            "{} would have time and memory for a layer more; what it would do to transfers, to gradient synchronisation \
             or to the fill of the pipeline outweighs that.",
            list(stages)
        ),
    });
    said.push(format!(
        "GPU time: {} passes and optimizer steps, {} recomputation, {} exposed communication, {} bubble.",
        percent(time.useful),
        percent(time.recomputation),
        percent(time.exposed_communication),
        percent(time.bubble)
    ));
    said.push(format!(
        "Between its last backward pass and its optimizer step no GPU waits longer than {} for gradients.",
        format_seconds(links.exposed_gradient_sync_s)
    ));
    if let Some(link) = &links.slowest_boundary {
        said.push(format!(
            "Slowest boundary: {} to {}, {} one way at {:.1} GB/s.",
            link.from,
            link.to,
            format_seconds(link.transfer_s),
            link.bytes_per_s / 1e9
        ));
    }
    let idle = explanation.devices.iter().filter(|devices| devices.used < devices.available);
    let idle: Vec<String> = idle
        .map(|devices| format!("{} of {} {}", devices.available - devices.used, devices.available, devices.gpu_type))
        .collect();
    said.push(match idle.as_slice() {
        [] => "All GPUs are in use.".to_owned(),
        idle => format!("Not in use: {}. The planner found no faster plan with them.", idle.join(", ")),
    });
    said
}

fn rejected_table(explanation: &Explanation, screen: Screen) -> String {
    let mut table = empty_table(screen);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
    table.set_header(["otherwise", "iteration", "slower by", "best plan of that kind, GPU type:layers"]);
    for other in &explanation.alternatives {
        table.add_row([
            Cell::new(choice(other)),
            Cell::new(or_absent(other.predicted_iteration_s, format_seconds)),
            Cell::new(or_absent(other.slower_by, percent)),
            Cell::new(other.shape.as_ref().or(other.reason.as_ref()).map_or(ABSENT, String::as_str)),
        ]);
    }
    for other in &explanation.next_best {
        table.add_row([
            Cell::new("next best"),
            Cell::new(format_seconds(other.predicted_iteration_s)),
            Cell::new(percent(other.slower_by)),
            Cell::new(&other.shape),
        ]);
    }
    align_right(&mut table, [1, 2]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    trimmed(&table)
}

fn choice(other: &Alternative) -> String {
    match &other.choice {
        Choice::TensorParallelSize(size) => format!("tensor parallel {size}"),
        Choice::MicroBatchSize(size) => format!("micro batch size {size}"),
        Choice::Recompute(setting) => format!("recompute {setting}"),
        Choice::Without(gpu_type) => format!("without {gpu_type}"),
        Choice::SymmetricGrid => "symmetric grid".to_owned(),
        Choice::ProportionalGrid => "loads by power".to_owned(),
    }
}

fn remedies(remedies: &[Remedy]) -> Vec<String> {
    let name = |limit| match limit {
        Limit::Memory => "the memory of all GPUs",
        Limit::Network => "the bandwidth between nodes",
        Limit::IntraNode => "the bandwidth within nodes",
        Limit::GlobalBatchSize => "the global batch size",
    };
    let (mut helpful, mut useless) = (Vec::new(), Vec::new());
    for remedy in remedies {
        if remedy.speedup >= WORTH_SAYING {
            let gain = percent(remedy.speedup - 1.0);
            helpful.push(format!("{} times {}: {gain} more tokens/s.", remedy.factor, name(remedy.limit)));
        } else {
            useless.push(format!("{} times {}", remedy.factor, name(remedy.limit)));
        }
    }
    if !useless.is_empty() {
        helpful.push(format!("No gain worth a word from {}.", useless.join(", ")));
    }
    helpful
}

/// Sentences as lines that fit, each on lines of its own.
fn wrapped(sentences: &[String], screen: Screen) -> String {
    let mut lines: Vec<String> = Vec::new();
    for sentence in sentences {
        let mut line = String::from("-");
        for word in sentence.split(' ') {
            if line.chars().count() + 1 + word.chars().count() > usize::from(screen.width) {
                lines.push(std::mem::replace(&mut line, " ".to_owned()));
            }
            line.push(' ');
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// What would make a plan fit, where none does.
pub fn fitting_changes_text(error: &str, changes: &[String], screen: Screen) -> String {
    let reason = error.split("\nhint: ").next().unwrap_or(error).to_owned();
    if changes.is_empty() {
        return format!("{reason}\nNo single change that was tried makes it fit: use a smaller model.\n");
    }
    format!("{reason}\nEach of these makes it fit by itself:\n{}\n", wrapped(changes, screen))
}
