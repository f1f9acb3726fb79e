use super::*;
use serde_json::json;

pub(in crate::report) fn row(gpus: u32, planner: &str, tokens_per_s: Option<f64>) -> SweepRow {
    let outcome = match tokens_per_s {
        Some(tokens_per_s) => {
            let mut figures = Map::new();
            figures.insert("tokens_per_s".into(), rounded(tokens_per_s));
            figures.insert("usd_per_million_tokens".into(), rounded(f64::from(gpus) / tokens_per_s / 3.6e-3));
            SweepOutcome { status: SweepStatus::Ok, reason: None, figures }
        }
        None => SweepOutcome::without_figures(SweepStatus::Infeasible, "no plan fits: 10 GB, or so\nhint: more"),
    };
    SweepRow { key: vec![gpus.into(), planner.into()], outcome }
}

pub(in crate::report) fn table(rows: Vec<SweepRow>) -> SweepTable {
    SweepTable::new(SweepKind::Plans, vec!["gpus.T4".into(), "planner".into()], rows)
}

#[test]
fn rows_are_sorted_by_number_then_by_name() {
    let table = table(vec![row(10, "a", None), row(9, "b", Some(2.5)), row(9, "a", Some(2.0))]);
    let expected = "gpus.T4,planner,status,reason,tokens_per_s,usd_per_million_tokens\n\
                    9,a,ok,,2,1250\n9,b,ok,,2.5,1000\n10,a,infeasible,\"no plan fits: 10 GB, or so\",,\n";
    assert_eq!(table.csv(), expected);
}

#[test]
fn a_row_survives_the_way_through_its_line() {
    let axes = table(Vec::new()).axes;
    for row in [row(3, "whale", Some(1.0 / 3.0)), row(4, "whale", None)] {
        assert_eq!(SweepTable::row_of_line(&axes, &SweepTable::json_line(&axes, &row)), Some(row));
    }
    let whole = SweepTable::json_line(&axes, &row(3, "whale", Some(1.0)));
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        assert_eq!(SweepTable::row_of_line(&axes, &whole[..cut]), None, "{}", &whole[..cut]);
    }
}

#[test]
fn figures_have_seven_digits() {
    assert_eq!(rounded(123_456.789_012).to_string(), "123456.8");
    assert_eq!(rounded(0.000_123_456_78).to_string(), "0.0001234568");
    assert_eq!(rounded(2.0).to_string(), "2");
    assert_eq!(rounded(f64::INFINITY), Value::Null);
    assert_eq!(rounded(1e300), json!(1e300));
}
