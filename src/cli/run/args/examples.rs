//! What stands below the options in `--help` and `--help-all`. Paragraphs are lines, which the help wraps; commands are broken
//! where a shell takes it.

pub(super) const RUN: &str = "\
Examples:
  autohet-run --model gpt-tiny --global-batch-size 8 --steps 20
  autohet-run --plan plan.json --steps 50 --out results/tiny
  autohet-run check --plan plan.json";

pub(super) const LONG_RUN: &str = "\
Without a plan it plans for the devices that it finds: on the CPU each core is one. A plan runs as it is: this program takes \
replicas, stages, layers, micro batches and schedule from it, and starts one process per GPU of its nodes on this machine, \
whatever types the plan names.

Examples:
  autohet-run --model gpt-tiny --global-batch-size 8 --steps 20
  autohet-run --model gpt-tiny --ranks 2 --data corpus.txt --steps 200 \\
      --out results/tiny
  autohet-run --model gpt-17m --data tokens.bin --warmup-steps 20 \\
      --decay-steps 500 --steps 500 --checkpoint-dir ckpt

  autohet-sim plan --cluster 1x1xL4+1x1xT4 --model gpt-tiny \\
      --global-batch-size 8 --precision fp32 --out plan.json
  autohet-run --plan plan.json --steps 50 --format json
  autohet-run --plan plan.json --backend cuda --device-map 0,0 \\
      --data tokens.bin --data-format u16

  autohet-run --model gpt-tiny --global-batch-size 8 --inject spot.csv \\
      --trace-speed 60 --steps 500";

pub(super) const CHECK: &str = "\
Examples:
  autohet-run check --plan plan.json
  autohet-run check --model gpt-tiny --global-batch-size 32 --time-scale 20 \\
      --backend emulated --inject traces/spot-small.csv";

pub(super) const PROFILE: &str = "\
Examples:
  autohet-run profile --model gpt-tiny --out profile.json
  autohet-run profile --model gpt-17m --tensor-parallel-sizes 1,2 \\
      --micro-batch-sizes 1,2,4,8 --concurrency 2";

pub(super) const WORKER: &str = "\
The data and the folder of checkpoints go by the coordinator's paths: they have to be on a file system that all hosts share.

Examples:
  openssl rand -hex 32 > secret && chmod 600 secret
  autohet-run --plan plan.json --hosts hosts.txt --listen 10.0.0.1:7070 \\
      --secret-file secret
  autohet-run worker --coordinator 10.0.0.1:7070 --node t4-1 --gpu 0 \\
      --secret-file secret";
