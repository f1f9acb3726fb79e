use super::*;

fn case(name: &str, model: &str, seconds: &[(&str, f64)]) -> ReproducedCase {
    let plan = |&(planner, iteration_s): &(&str, f64)| ReproducedPlan {
        planner: planner.to_owned(),
        iteration_s: Some(iteration_s),
        lower_bound_s: Some(1.0),
        gpus_in_use: 8,
        shape: "4 x (A100-80:20 > H800:12), micro batch size 1, no recomputation".to_owned(),
    };
    ReproducedCase {
        name: name.to_owned(),
        model: model.to_owned(),
        cluster: "4 A100-80 + 4 H800".to_owned(),
        tokens: 1 << 20,
        uneven_power: 1.4,
        plans: seconds.iter().map(plan).collect(),
    }
}

fn small() -> Reproduction {
    let seconds = [("autohet", 2.0), ("megatron", 3.0), ("whale", 2.2), ("alpa", 2.1)];
    let bert = [("autohet", 2.0), ("megatron", 2.0), ("whale", 1.9), ("alpa", 2.0)];
    Reproduction {
        cases: vec![
            case("bert-large-4a100-4h800", "bert-large", &bert),
            case("llama-7b-4a100-4h800", "llama-7b", &seconds),
        ],
    }
}

#[test]
fn uneven_power_is_what_equal_loads_leave() {
    // Eight GPUs at the pace of the slow ones are 8, the four fast ones alone 12, all together 16.
    assert!((uneven_power(&[(4.0, 1.0), (4.0, 3.0)]) - 16.0 / 12.0).abs() < 1e-12);
    // One fast GPU among many slow ones is worth as little as a slow one: 8 of all, 9.
    assert!((uneven_power(&[(7.0, 1.0), (1.0, 2.0)]) - 9.0 / 8.0).abs() < 1e-12);
    assert!((uneven_power(&[(8.0, 2.0)]) - 1.0).abs() < 1e-12);
}

#[test]
fn every_case_and_the_papers_figures_are_in_the_table() {
    let table = reproduction_table(&small(), Screen::PLAIN);
    let row = table.lines().find(|line| line.contains("llama-7b-4a100-4h800")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["llama-7b-4a100-4h800", "524,288", "1.50", "1.10", "1.40"]);
    assert!(table.contains("LLaMA: up to 1.50 x Megatron-LM (paper: up to 1.79), 1.10 x Whale (1.79)\n"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn the_markdown_says_where_it_differs() {
    let text = reproduction_markdown(&small());
    assert!(text.contains("| LLaMA | up to 1.79 | 1.50 | 1.50 | up to 1.79 | 1.10 | 1.10 |"), "{text}");
    assert!(
        text.contains("- LLaMA: up to 1.50 over Megatron-LM, the paper has up to 1.79. It is llama-7b on 4 A100"),
        "{text}"
    );
    assert!(text.contains("Megatron-LM's best grid is 8 GPUs, 4 x (A100-80:20 > H800:12)"), "{text}");
    assert!(text.contains("Less: in none of the mixes here"), "{text}");
    assert!(text.contains(" over alpa |") && !text.contains("GPT-3: up to"), "{text}");
}

#[test]
fn the_csv_has_a_row_for_each_plan() {
    let text = reproduction_csv(&small());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 8);
    let megatron = rows.iter().find(|row| &row[0] == "llama-7b-4a100-4h800" && &row[4] == "megatron").unwrap();
    assert_eq!((&megatron[5], &megatron[8], &megatron[7]), ("3", "1.5", "349525.3333333333"));
}

#[test]
fn the_figure_has_every_case_and_no_nonsense() {
    let svg = reproduction_svg(&small());
    for text in ["4 A100 + 4 H800", "LLaMA", "BERT-large", "over Whale", "1.79", "1.38"] {
        assert!(svg.contains(text), "{text} is missing");
    }
    let mut none = small();
    none.cases[0].plans.iter_mut().for_each(|plan| plan.iteration_s = None);
    for reproduction in [none, Reproduction { cases: Vec::new() }] {
        let svg = reproduction_svg(&reproduction);
        assert!(!svg.contains("NaN") && svg.trim_end().ends_with("</svg>"));
        assert!(!reproduction_markdown(&reproduction).contains("NaN"));
    }
}
