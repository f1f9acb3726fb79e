//! `autohet-sim validate`: published figures, what it writes, what it refuses.

use crate::support::Sandbox;
use rstest::rstest;
use serde_json::Value;
use std::path::Path;

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name).display().to_string()
}

fn validated(sandbox: &Sandbox, dataset: &str) -> Value {
    let ran = sandbox.run(&["validate", dataset, "--format", "json", "--quiet", "--out", "out"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Errors that have grown beyond what `published-errors.json` says.
fn grown(summary: &Value) -> Vec<String> {
    let levels: Value = serde_json::from_str(&std::fs::read_to_string(data("published-errors.json")).unwrap()).unwrap();
    let levels = levels.as_object().unwrap();
    assert_eq!(levels.len(), summary["sources"].as_object().unwrap().len());
    let mut grown = Vec::new();
    for (source, quantities) in levels {
        for (quantity, level) in quantities.as_object().unwrap() {
            let mape = summary["sources"][source][quantity]["mape"].as_f64().unwrap();
            if mape > level.as_f64().unwrap() + 5e-4 {
                grown.push(format!("{source} {quantity}: {mape:.4}, was {level}"));
            }
        }
    }
    grown
}

/// No error may grow beyond what `published-errors.json` says; whoever lowers one lowers the level there.
#[test]
fn errors_on_published_runs_do_not_grow() {
    let grown = grown(&validated(&Sandbox::new(), &data("published.csv")));
    assert!(grown.is_empty(), "{grown:?}");
}

/// Names of the columns of the published figures, and the rows.
fn published() -> (csv::StringRecord, Vec<csv::StringRecord>) {
    let mut reader = csv::Reader::from_path(data("published.csv")).unwrap();
    (reader.headers().unwrap().clone(), reader.records().map(Result::unwrap).collect())
}

fn column(headers: &csv::StringRecord, name: &str) -> usize {
    headers.iter().position(|header| header == name).unwrap_or_else(|| panic!("no column `{name}`"))
}

/// If the simulator said a tenth more of everything, or a tenth less, each source would be noticed.
#[rstest]
#[case::more(1.1)]
#[case::less(0.9)]
fn a_simulator_that_got_worse_would_be_noticed(#[case] factor: f64) {
    let (headers, rows) = published();
    let figures = ["value", "iter_time_s", "tflops_gpu", "mem_gb"].map(|name| column(&headers, name));
    let metric = column(&headers, "metric");
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&headers).unwrap();
    for row in &rows {
        // As good as a prediction that is larger is a measurement that is smaller; of rates it is the other way round.
        let scale = if row[metric].contains("TFLOP") { factor } else { 1.0 / factor };
        let cells = row.iter().enumerate().map(|(place, cell)| match cell.parse::<f64>() {
            Ok(figure) if figures.contains(&place) => (figure * scale).to_string(),
            _ => cell.to_owned(),
        });
        writer.write_record(cells).unwrap();
    }
    let sandbox = Sandbox::new().file("worse.csv", writer.into_inner().unwrap());
    let grown = grown(&validated(&sandbox, "worse.csv"));
    assert_eq!(grown.len(), 4, "{grown:?}");
}

#[test]
fn published_figures_have_their_sources() {
    let (headers, rows) = published();
    assert!(rows.len() >= 30);
    for row in rows {
        let (source, quality) = (&row[column(&headers, "source")], &row[column(&headers, "quality")]);
        assert!(["(arXiv ", "github.com/"].iter().any(|part| source.contains(part)), "{row:?}");
        assert!(["Table ", "Fig. ", "row "].iter().any(|part| source.contains(part)), "{row:?}");
        assert!(["A", "B"].contains(&quality), "{row:?}");
    }
}

#[test]
fn a_folder_is_written_whole_and_the_same_again() {
    let sandbox = Sandbox::new();
    let summary = validated(&sandbox, &data("published.csv"));
    let files = ["README.md", "records.csv", "scatter.svg", "summary.json"];
    let first = files.map(|file| sandbox.read(&format!("out/{file}")));
    assert_eq!(validated(&sandbox, &data("published.csv")), summary);
    assert_eq!(files.map(|file| sandbox.read(&format!("out/{file}"))), first);
    let time = &summary["sources"]["sc21"]["time"];
    for key in ["count", "mape", "median", "p90", "max", "bias"] {
        assert!(time[key].is_number(), "{key}: {time}");
    }
    let record = &time["records"][0];
    let (measured, predicted) = (record["measured"].as_f64().unwrap(), record["predicted"].as_f64().unwrap());
    assert!((record["error"].as_f64().unwrap() - (predicted / measured - 1.0)).abs() < 1e-12);
    // 1.7B, batch 512, 137 Tflop/s on 32 GPUs, by equation 3 of the paper.
    let (l, h, s, v) = (24.0, 2304.0, 2048.0, 51_200.0);
    let flops = 96.0 * 512.0 * s * l * h * h * (1.0 + s / (6.0 * h) + v / (16.0 * l * h));
    assert!((measured - flops / (32.0 * 137e12)).abs() < 1e-6, "{measured}");
}

const HEADER: &str = "id,quality,gpu,gpus_per_node,inter_gbps_per_node,n_gpus,model,layers,hidden,heads,vocab,seq_len,precision,\
                      global_batch,micro_batch,tp,pp,dp,recompute,zero,metric,value,iter_time_s\n";
const RUN: &str = "A,T4-16GB,4,50,4,gpt,4,256,4,1000,128,fp16,8,1,1,2,2,none,0,iteration time s,0.5,0.5\n";

fn table(rows: &[&str]) -> String {
    HEADER.to_owned() + &rows.concat()
}

#[test]
fn what_is_skipped_is_counted_with_its_reason() {
    let c = format!("a-2,{}", RUN.replacen('A', "C", 1));
    let eight = format!("a-3,{}", RUN.replace("fp16", "fp8"));
    let unknown = format!("a-4,{}", RUN.replace("T4-16GB", "Z9000"));
    let (good, open) = (format!("a-1,{RUN}"), format!("b-1,{}", RUN.replace(",none,0,", ",,0,")));
    let sandbox = Sandbox::new().file("runs.txt", table(&[&good, &c, &eight, &unknown, &open]));
    let summary = validated(&sandbox, "runs.txt");
    assert_eq!(summary["sources"]["a"]["time"]["count"], 1);
    assert_eq!(summary["skipped"]["count"], 4);
    let reasons = summary["skipped"]["reasons"].as_object().unwrap();
    assert_eq!(reasons["quality C: anomalous or incomplete"], 1);
    assert_eq!(reasons["GPU type `Z9000` isn't in the catalog"], 1);
    assert_eq!(reasons["`recompute` isn't given"], 1);
}

#[rstest]
#[case::nothing(String::new(), &["it is empty"])]
#[case::text("hello\nthere\n".to_owned(), &["begins with `hello`"])]
#[case::other_json("{\"nodes\": []}".to_owned(), &["missing field", "runs.txt:1"])]
#[case::a_list("[1, 2]".to_owned(), &["runs.txt:1"])]
#[case::no_rows(HEADER.to_owned(), &["no records"])]
#[case::no_id(table(&[&format!(",{RUN}")]), &["runs.txt:2: `id` is empty"])]
#[case::twice(table(&[&format!("a-1,{RUN}"), &format!("a-1,{RUN}")]), &["runs.txt:3: `id` is `a-1`"])]
#[case::short(table(&["a-1,A,T4\n"]), &["runs.txt:2: the row has 3 cells, expected 23"])]
#[case::number(table(&[&format!("a-1,{}", RUN.replace(",0.5,0.5", ",0.5,fast"))]), &["`iter_time_s` is `fast`"])]
#[case::negative(table(&[&format!("a-1,{}", RUN.replace(",0.5,0.5", ",-1,-1"))]), &["`value` is `-1`"])]
#[case::zero(table(&[&format!("a-1,{}", RUN.replace(",256,", ",0,"))]), &["`hidden` is `0`"])]
fn a_dataset(#[case] text: String, #[case] parts: &[&str]) {
    let sandbox = Sandbox::new().file("runs.txt", text);
    sandbox.refuses(&["validate", "runs.txt"], parts);
}

#[test]
fn a_dataset_that_is_not_there() {
    Sandbox::new().refuses(&["validate", "nowhere.csv"], &["cannot read dataset `nowhere.csv`"]);
}

/// Two replicas of two stages on nodes of two GPUs, in the form in which Sailor publishes its runs.
const PIPELINES: &str = r#"{"gpus_per_node": 2, "network": {"inter_node_same_type": {"T4": {"1": [[0.0, 0.1, 1.0], 2e9]}}},
"configs": [
{"id": "lab/gpt/one", "model": "gpt", "seq_len": 128, "hidden": 256, "heads": 4, "vocab": 1000, "num_layers_all": 6,
 "precision": "fp32", "global_batch_size": 8, "micro_batch_size": 1,
 "pipelines": [[{"gpu_type": "T4", "tp": 2, "layers": [0, 1, 2]}, {"gpu_type": "T4", "tp": 2, "layers": [3, 4, 5]}],
               [{"gpu_type": "T4", "tp": 2, "layers": [0, 1, 2]}, {"gpu_type": "T4", "tp": 2, "layers": [3, 4, 5]}]],
 "measured": {"iteration_time_s": 0.5, "max_memory_bytes_over_all_gpus": 3e9}, "use": true},
{"id": "lab/gpt/two", "model": "gpt", "seq_len": 128, "hidden": 256, "heads": 4, "vocab": 1000, "num_layers_all": 6,
 "precision": "fp32", "global_batch_size": 8, "micro_batch_size": 1, "pipelines": [], "measured": {}, "use": false}]}"#;

#[test]
fn pipelines_are_recognised_by_content() {
    let sandbox = Sandbox::new().file("runs.txt", PIPELINES);
    let summary = validated(&sandbox, "runs.txt");
    let source = &summary["sources"]["lab/gpt"];
    assert_eq!((&source["time"]["count"], &source["memory"]["count"]), (&Value::from(1), &Value::from(1)));
    assert_eq!(source["time"]["records"][0]["gpus"], 8);
    assert_eq!(summary["skipped"]["reasons"]["marked as not to be used"], 1);
}

#[rstest]
#[case::gap("\"layers\": [3, 4, 5]", "\"layers\": [4, 5]", &["runs.txt:3: `pipelines[0][1].layers` is [4, 5]"])]
#[case::degree("\"tp\": 2", "\"tp\": 3", &["`pipelines[0][0].tp` is `3`, expected from 1 to 2"])]
#[case::batch("\"global_batch_size\": 8", "\"global_batch_size\": 7", &["`global_batch_size` is `7`"])]
#[case::kind("\"seq_len\": 128", "\"seq_len\": \"long\"", &["runs.txt:3:", "invalid type"])]
fn pipelines_that_cannot_be(#[case] from: &str, #[case] to: &str, #[case] parts: &[&str]) {
    let sandbox = Sandbox::new().file("runs.txt", PIPELINES.replacen(from, to, 1));
    sandbox.refuses(&["validate", "runs.txt"], parts);
}
