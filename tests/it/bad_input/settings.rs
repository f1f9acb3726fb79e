//! Keys of scenarios and of the generator's settings.

use crate::support::Sandbox;
use rstest::rstest;

#[rstest]
#[case::unknown_key("modell = \"bert-large\"\n", &["s.toml` line 1, column 1", "unknown field `modell`"])]
#[case::unknown_nested("[training]\n  bacth = 3\n", &["s.toml` line 2, column 3", "unknown field `bacth`"])]
#[case::no_toml("replay this\n", &["s.toml` line 1"])]
#[case::text_for_number("[training]\nglobal_batch_size = \"many\"\n", &["line 2, column 21"])]
#[case::negative("[training]\nglobal_batch_size = -1\n", &["line 2", "`-1`"])]
#[case::zero("[training]\nglobal_batch_size = 0\n", &["`training.global_batch_size` is `0`"])]
#[case::indivisible("[training]\nmicro_batch_sizes = [3, 5]\n", &["[3, 5] divides"])]
#[case::giant_micro_batch("[training]\nmicro_batch_sizes = [4294967295]\n", &["`training.micro_batch_sizes`", "4294967295"])]
#[case::no_degrees("[training]\ntensor_parallel_sizes = []\n", &["`training.tensor_parallel_sizes`"])]
#[case::zero_degree("[training]\ntensor_parallel_sizes = [1, 0]\n", &["`training.tensor_parallel_sizes`"])]
#[case::no_recompute("[training]\nrecompute = []\n", &["`training.recompute`"])]
#[case::unknown_recompute("[training]\nrecompute = [\"some\"]\n", &["line 2", "`some`"])]
#[case::unknown_precision("[training]\nprecision = \"fp8\"\n", &["line 2", "`fp8`"])]
#[case::no_policies("policies = []\n", &["`policies` is `[]`"])]
#[case::unknown_policy("policies = [\"Autohet\"]\n", &["unknown policy `Autohet`", "`autohet`"])]
#[case::nan_bandwidth("[network]\nnic_gbit_per_s = nan\n", &["`network.nic_gbit_per_s` is `NaN`"])]
#[case::nan_interval("[checkpoint]\ninterval = { fixed = { seconds = nan } }\n", &["`checkpoint.interval.fixed.seconds`"])]
#[case::unknown_interval("[checkpoint]\ninterval = \"hourly\"\n", &["line 2", "`hourly`"])]
#[case::slow_disk("[checkpoint]\ndisk_bytes_per_s = -1.0\n", &["`checkpoint.disk_bytes_per_s` is `-1`"])]
#[case::slow_store("[checkpoint]\nobject_store_bytes_per_s = 1e-300\n", &["`checkpoint.object_store_bytes_per_s`"])]
#[case::endless_detection("[reconfiguration]\ndetection_s = 1e300\n", &["`reconfiguration.detection_s` is `1e300`", "86400"])]
#[case::infinite_planning("[reconfiguration]\nplanning_s = inf\n", &["`reconfiguration.planning_s` is `inf`"])]
#[case::huge_state("[cost]\noptimizer_bytes_per_parameter = 9000000000000000000\n", &["`cost.optimizer_bytes_per_parameter`"])]
#[case::huge_reserve("[cost]\nreserve_bytes = 9000000000000000000\n", &["`cost.reserve_bytes`"])]
#[case::no_gpus("[trace]\ngpus_per_node = 0\n", &["`trace.gpus_per_node` is `0`"])]
fn a_scenario(#[case] text: &str, #[case] parts: &[&str]) {
    let sandbox = Sandbox::with_small_trace().file("s.toml", text);
    // Notes on the trace, which may come before the error, aren't asked for.
    sandbox.refuses(&["-q", "--scenario", "s.toml", "--trace", "small.csv", "--model", "bert-large"], parts);
}

#[rstest]
#[case::unknown_key("sede = 3\n", &["g.toml` line 1", "unknown field `sede`"])]
#[case::unknown_pool_key("[[pools]]\nnodes = 2\ngpu_count = 8\ngpu_type = \"T4\"\nzones = 3\n", &["line 5", "`zones`"])]
#[case::missing_key("[[pools]]\nnodes = 2\n", &["g.toml` line 1", "missing field `gpu_"])]
#[case::no_toml("two pools\n", &["g.toml` line 1"])]
#[case::nan("hours = nan\n[[pools]]\nnodes = 2\ngpu_count = 8\ngpu_type = \"T4\"\n", &["`hours`", "`NaN`"])]
#[case::negative_seed("seed = -1\n", &["g.toml` line 1", "`-1`"])]
#[case::share("[[pools]]\nnodes = 2\ngpu_count = 8\ngpu_type = \"T4\"\nbulk_share = 1.5\n", &["`pools[0].bulk_share`", "`1.5`"])]
#[case::nan_sigma("[[pools]]\nnodes = 2\ngpu_count = 8\ngpu_type = \"T4\"\nup_time_sigma = nan\n", &["`pools[0].up_time_sigma`"])]
#[case::unknown_type("[[pools]]\nnodes = 2\ngpu_count = 8\ngpu_type = \"T5\"\n", &["`T5`", "`T4`"])]
#[case::too_busy("hours = 1000.0\n[[pools]]\nnodes = 10000\ngpu_count = 1\ngpu_type = \"T4\"\nup_time_mean_hours = 0.1\nreturn_sigma = 0.0\n", &["`hours`", "a million nodes"])]
fn generator_settings(#[case] text: &str, #[case] parts: &[&str]) {
    let sandbox = Sandbox::new().file("g.toml", text);
    sandbox.refuses(&["trace", "generate", "--settings", "g.toml", "--out", "t.csv"], parts);
}
