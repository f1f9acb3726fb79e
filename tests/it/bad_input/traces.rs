//! Traces that can't be read, or tell an impossible story.

use crate::support::{SMALL_TRACE, Sandbox};
use rstest::rstest;

#[rstest]
#[case::unknown_column("time_s,event,node,gpus\n0,up,a,4\n", &["line 1, column `gpus`"])]
#[case::column_twice("time_s,event,node,gpu_type,event\n0,up,a,T4,up\n", &["line 1, column `event`", "twice"])]
#[case::no_event_column("time_s,node\n0,a\n", &["line 1", "`event`"])]
#[case::bad_time("time_s,event,node\nzero,up,a\n", &["line 2, column `time_s`", "expected seconds", "found `zero`"])]
#[case::nan_time("time_s,event,node\nnan,up,a\n", &["line 2, column `time_s`", "`nan`"])]
#[case::negative_time("time_s,event,node\n-5,up,a\n", &["line 2, column `time_s`", "`-5`"])]
#[case::infinite_time("time_s,event,node\n0,up,a\ninf,down,a\n", &["line 3, column `time_s`", "`inf`"])]
#[case::huge_time("time_s,event,node\n0,up,a\n1e18,down,a\n", &["line 3", "0 to 100 years", "`1e18`"])]
#[case::time_runs_back("time_s,event,node,gpu_type\n9,up,a,T4\n5,down,a,\n", &["line 3", "no earlier than line 2 (`9`)"])]
#[case::down_before_up("time_s,event,node\n0,down,a\n", &["line 2, column `node`", "never came up"])]
#[case::up_twice("time_s,event,node\n0,up,a\n5,up,a\n", &["line 3", "up since line 2"])]
#[case::unknown_event("time_s,event,node\n0,upp,a\n", &["line 2, column `event`", "`up` is near"])]
#[case::no_node("time_s,event,node\n0,up,\n", &["line 2, column `node`", "found nothing"])]
#[case::zero_gpus("time_s,event,node,gpu_type,gpu_count\n0,up,a,T4,0\n", &["line 2, column `gpu_count`", "`0`"])]
#[case::too_many_gpus("time_s,event,node,gpu_type,gpu_count\n0,up,a,T4,1025\n", &["1 to 1024", "`1025`"])]
#[case::nan_price("time_s,event,node,price_usd_per_hour\n0,up,a,nan\n", &["column `price_usd_per_hour`", "`nan`"])]
#[case::negative_notice("time_s,event,node,notice_s\n0,up,a,\n5,down,a,-1\n", &["line 3, column `notice_s`"])]
#[case::too_many_cells("time_s,event,node\n0,up,a,T4\n", &["line 2", "at most 3 cells, found 4"])]
#[case::unknown_gpu("time_s,event,node,gpu_type,gpu_count\n0,up,a,V100-61,4\n", &["t.csv", "node `a`", "`V100-61`", "`V100-16`"])]
#[case::no_gpu_type("time_s,event,node\n0,up,a\n9,down,a\n", &["t.csv", "node `a`", "--gpu-type"])]
#[case::no_gpu_count("time_s,event,node,gpu_type\n0,up,a,T4\n9,down,a,\n", &["node `a`", "--gpus-per-node"])]
#[case::truncated("time_s,event,node,gpu_type,gpu_count\n0,up,a,T4,4\n60,do", &["line 3, column `event`", "`do`"])]
#[case::header_only("time_s,event,node\n", &["t.csv", "found none"])]
#[case::empty("", &["t.csv", "found none"])]
#[case::only_comments("# nothing\n\n# here\n", &["t.csv", "found none"])]
#[case::another_format("780000;30\n", &["t.csv` line 1", "`780000;30`"])]
#[case::counts_without_gpus("780000,30\n", &["t.csv", "node `node-000`", "--gpu-type"])]
#[case::unclear_unit("0,3\n40,2\n", &["t.csv", "of which the unit shows", "--time-unit h"])]
#[case::prices("{\"SpotPriceHistory\":[]}", &["t.csv", "has prices only", "no bid"])]
#[case::broken_json("{\"metadata\":{\"gap_seconds\":5},\"data\":[1,", &["t.csv` line 1, column", "starts like JSON"])]
#[case::broken_sacct("JobID|Start|End|State|NodeList\n1|now|Unknown|RUNNING|a\n", &["line 2, column `Start`", "`now`"])]
#[case::json("{\"data\":[1,1,0]}\n", &["line 1", "known are the canonical CSV"])]
#[case::bamboo_word("0,add,a\n5,vanish,a\n", &["line 2, column `event`", "`add` or `remove`"])]
#[case::bamboo_negative("0,add,a\n-5,remove,a\n", &["line 2, column `milliseconds`", "`-5`"])]
#[case::bamboo_huge("0,add,a\n99999999999999999999,remove,a\n", &["line 2", "0 to 100 years"])]
#[case::bamboo_without_gpus("0,add,node1\r\n1000,remove,node1\r\n", &["node `node1`", "--gpu-type V100-16"])]
fn a_trace_that_makes_no_sense(#[case] text: &str, #[case] parts: &[&str]) {
    Sandbox::new().file("t.csv", text).refuses(&["--trace", "t.csv", "--model", "bert-large"], parts);
}

#[rstest]
#[case(&["--polarity", "preempted"], &["`--polarity` means nothing for canonical CSV"])]
#[case(&["--which-node", "oldest"], &["`--which-node` means nothing for canonical CSV"])]
#[case(&["--time-unit", "h"], &["`--time-unit` means nothing for canonical CSV"])]
#[case(&["--trace-format", "slurm-jobs"], &["column `Start`: expected this column"])]
#[case(&["--gpus-per-node", "0"], &["`trace.gpus_per_node` is `0`"])]
fn options_that_don_t_fit_the_trace(#[case] options: &[&str], #[case] parts: &[&str]) {
    for command in [&["--trace", "small.csv"][..], &["trace", "stats", "small.csv"], &["trace", "convert", "small.csv"]]
    {
        Sandbox::with_small_trace().refuses(&[command, options].concat(), parts);
    }
}

#[test]
fn a_binary_file() {
    let bytes: Vec<u8> = (0..=255).cycle().take(3000).collect();
    let sandbox = Sandbox::new().file("t.csv", bytes).file("zero.csv", [b'a', 0, b'b']);
    sandbox.refuses(&["--trace", "t.csv"], &["t.csv` line 2", "UTF-8 text"]);
    sandbox.refuses(&["--trace", "zero.csv"], &["zero.csv` line 1", "U+0000"]);
    sandbox.refuses(&["trace", "stats", "t.csv"], &["t.csv"]);
}

#[test]
fn every_cut_of_a_trace_is_read_or_refused() {
    for end in (0..SMALL_TRACE.len()).step_by(7) {
        let sandbox = Sandbox::new().file("t.csv", &SMALL_TRACE[..end]);
        let ran = sandbox.run(&["trace", "stats", "t.csv", "--format", "json"]);
        match ran.code {
            Some(0) => assert!(ran.stderr.is_empty(), "{end}: {}", ran.stderr),
            Some(2) => assert!(ran.stderr.starts_with("error: `t.csv`") && ran.stdout.is_empty(), "{}", ran.stderr),
            other => panic!("cut at {end} ended with {other:?}: {}", ran.stderr),
        }
    }
}

#[test]
fn nodes_that_come_and_go_at_one_time_were_never_there() {
    let text = "time_s,event,node,gpu_type,gpu_count\n\
                0,up,a,T4,4\n0,down,a,,\n0,up,a,T4,4\n0,notice,a,,\n0,down,a,,\n10,up,a,T4,2\n400,down,a,,\n";
    let sandbox = Sandbox::new().file("t.csv", text);
    let ran = sandbox.run(&["--trace", "t.csv", "--model", "bert-large", "--format", "json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let summary: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(summary["policies"]["autohet"]["paid_gpu_s"], 2.0 * 390.0);
}
