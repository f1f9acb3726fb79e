//! The examples of `docs/formats.md` and of the help, read as what they are examples of.

use crate::support::Sandbox;
use autohet::cluster::{Cluster, NodeDefaults};
use autohet::cost::{CostModel, CostSettings};
use autohet::model::ModelSpec;
use autohet::plan::Plan;
use autohet::profile::LayerProfile;
use autohet::trace::generator::{GeneratorSettings, PoolSettings, generate};

const DOCUMENT: &str = include_str!("../../../docs/formats.md");

/// The first fenced block below a heading.
fn example(heading: &str) -> &'static str {
    let section = DOCUMENT.split("\n## ").find(|section| section.starts_with(&format!("{heading}\n"))).unwrap();
    let blocks: Vec<&str> = section.split("```").collect();
    assert!(blocks.len() >= 3, "`{heading}` has an example");
    blocks[1].split_once('\n').unwrap().1
}

#[test]
fn the_example_of_a_profile_is_one() {
    let profile = LayerProfile::from_json(example("Profile"), "formats.md").unwrap();
    assert!(profile.for_model("bert-large").is_ok());
}

#[test]
fn the_example_of_a_profile_of_sailor_is_one() {
    let profile = LayerProfile::from_json(example("Sailor"), "formats.md").unwrap();
    assert!(profile.for_model("opt-350m").is_ok());
}

#[test]
fn the_example_of_a_cluster_is_one() {
    let sandbox = Sandbox::new().file("c.toml", example("Cluster"));
    let cluster = Cluster::from_file(&sandbox.path("c.toml"), &NodeDefaults::default()).unwrap();
    let names: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a100-80-0", "a100-80-1", "h20-0", "h20-1", "h20-2", "h20-3"]);
}

#[test]
fn the_example_of_a_market_has_every_key_at_its_default() {
    let settings: GeneratorSettings = toml::from_str(example("Market")).unwrap();
    let first = PoolSettings {
        zone: Some("us-east-1a".into()),
        price_usd_per_hour: Some(8.2),
        ..PoolSettings::new(5, 8, "A100-40")
    };
    let pools = vec![first, PoolSettings::new(3, 4, "T4")];
    assert_eq!(settings, GeneratorSettings { pools, ..GeneratorSettings::default() });
    let keys = |text: &str| -> Vec<String> {
        let first = text.splitn(3, "[[pools]]").take(2).collect::<String>();
        first.lines().filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
    };
    let (mut shown, mut all) = (keys(example("Market")), keys(&toml::to_string(&settings).unwrap()));
    shown.sort();
    all.sort();
    assert_eq!(shown, all);
    generate(&settings).unwrap();
}

#[test]
fn the_example_of_a_plan_fits_its_cluster() {
    let plan = Plan::from_json(example("Plan"), "formats.md").unwrap();
    let cluster = Cluster::parse_mix("1x1xA100-40+1x2xV100-16", &NodeDefaults::default()).unwrap();
    let cost = CostModel::new(ModelSpec::preset("bert-large").unwrap(), CostSettings::default(), None);
    plan.validate(&cluster, &cost).unwrap();
}

#[test]
fn the_settings_in_the_help_make_a_trace() {
    let help = Sandbox::new().run(&["trace", "generate", "--help-all"]).stdout;
    let (_, settings) = help.split_once("Example of a settings file:\n").unwrap();
    let (settings, _) = settings.split_once("\n\n").unwrap();
    let sandbox = Sandbox::new().file("market.toml", settings);
    let ran = sandbox.run(&["trace", "generate", "--settings", "market.toml"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.contains("A100-40,8,us-east-1a"), "{}", ran.stdout);
}
