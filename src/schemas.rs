//! JSON schemas (draft 2020-12) of the files that are read and written, for editors and for other programs. TOML files have
//! them too: a scenario or a cluster is checked as the JSON that says the same.
//!
//! They are made from the types that read the files; that of `summary.json` is written by hand, because it is a contract.

/// The schema of one kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSchema {
    /// Its name on the command line.
    pub name: &'static str,
    /// What the files are.
    pub summary: &'static str,
    /// The schema.
    pub text: &'static str,
}

/// The schemas by name.
pub const ALL: [FileSchema; 6] = [
    FileSchema {
        name: "plan",
        summary: "a plan, as `plan --out` writes it and `--plan` reads it (JSON)",
        text: include_str!("../docs/schemas/plan.schema.json"),
    },
    FileSchema {
        name: "cluster",
        summary: "nodes, for `--cluster` (TOML)",
        text: include_str!("../docs/schemas/cluster.schema.json"),
    },
    FileSchema {
        name: "model",
        summary: "a model, for `--model` (TOML or JSON)",
        text: include_str!("../docs/schemas/model.schema.json"),
    },
    FileSchema {
        name: "scenario",
        summary: "settings of a replay or a plan, for `--scenario` (TOML)",
        text: include_str!("../docs/schemas/scenario.schema.json"),
    },
    FileSchema {
        name: "profile",
        summary: "measured layer times, for `--profile` (JSON)",
        text: include_str!("../docs/schemas/profile.schema.json"),
    },
    FileSchema {
        name: "summary",
        summary: "what a replay leaves in `summary.json`",
        text: crate::report::SUMMARY_SCHEMA,
    },
];

/// The schema of this name.
///
/// ```
/// let schema = autohet::schemas::by_name("plan").unwrap();
/// assert!(schema.text.contains("global_batch_size"));
/// ```
pub fn by_name(name: &str) -> Option<FileSchema> {
    ALL.into_iter().find(|schema| schema.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::profile::ProfileFile;
    use crate::scenario::Scenario;
    use schemars::{Schema, schema_for};
    use serde_json::Value;
    use std::fs;
    use std::path::Path;

    /// Set to write the schemas instead of comparing them.
    const WRITE: &str = "AUTOHET_WRITE_SCHEMAS";

    fn generated() -> [(&'static str, Schema); 5] {
        [
            ("plan", schema_for!(Plan)),
            ("cluster", crate::cluster::file_schema()),
            ("model", crate::model::file_schema()),
            ("scenario", schema_for!(Scenario)),
            ("profile", schema_for!(ProfileFile)),
        ]
    }

    /// The schema as it is kept: with a name for people, and without the links of rustdoc.
    fn text_of(name: &str, schema: &Schema) -> String {
        let mut schema = schema.as_value().clone();
        schema["title"] = format!("autohet {name}").into();
        unlink(&mut schema);
        serde_json::to_string_pretty(&schema).unwrap() + "\n"
    }

    /// Makes `` [`A`](b) `` and `` [`A`] `` of all descriptions `` `A` ``, and one line of each.
    fn unlink(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    match field {
                        Value::String(text) if key == "description" => *text = unlinked(text),
                        other => unlink(other),
                    }
                }
            }
            Value::Array(entries) => entries.iter_mut().for_each(unlink),
            _ => {}
        }
    }

    fn unlinked(text: &str) -> String {
        let mut parts = text.split("[`");
        let mut kept = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once("`]").unwrap_or((part, ""));
            let target_end = if rest.starts_with('(') { rest.find(')').map_or(0, |end| end + 1) } else { 0 };
            kept = kept + "`" + name + "`" + &rest[target_end..];
        }
        kept.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn schemas_are_those_of_the_types() {
        let is_written = std::env::var_os(WRITE).is_some();
        for (name, schema) in generated() {
            let text = text_of(name, &schema);
            if is_written {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
                fs::write(folder.join(format!("{name}.schema.json")), text).unwrap();
                continue;
            }
            let kept = by_name(name).unwrap().text;
            assert!(
                kept == text,
                "docs/schemas/{name}.schema.json isn't that of its type: `{WRITE}=1 cargo test --lib schemas::`"
            );
        }
    }

    #[test]
    fn links_of_rustdoc_are_left_out() {
        assert_eq!(unlinked("see [`A::b`](Self::b), or\n[`C`]."), "see `A::b`, or `C`.");
    }

    #[test]
    fn what_is_read_passes_and_what_is_refused_does_not() {
        let check = |name: &str, value: &Value| {
            let schema: Value = serde_json::from_str(by_name(name).unwrap().text).unwrap();
            let validator = jsonschema::validator_for(&schema).unwrap();
            validator.iter_errors(value).map(|error| error.to_string()).collect::<Vec<_>>()
        };
        let scenario = |text: &str| serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap();
        let good = "profile = \"a.json\"\n[trace]\nwhich_node = \"random:7\"\n[checkpoint]\ninterval = { fixed = { seconds = 9.0 } }\n";
        assert_eq!(check("scenario", &scenario(good)), Vec::<String>::new());
        toml::from_str::<Scenario>(good).unwrap();
        for bad in [
            "modle = \"x\"",
            "[training]\nglobal_batch_size = -1",
            "[trace]\nwhich_node = \"youngest\"",
            "[trace]\ntime_unit = \"d\"",
            "[checkpoint]\ninterval = \"often\"",
            "[cost]\nkernels = \"fast\"",
        ] {
            assert!(!check("scenario", &scenario(bad)).is_empty(), "{bad}");
            assert!(toml::from_str::<Scenario>(bad).is_err(), "{bad}");
        }
        let nodes = scenario(
            "[[nodes]]\ncount = 2\ngpus = 8\ntype = \"H20\"\nflow = { gbyte_per_s = [0.0, 0.0, 9.0], from_bytes = 1.0, to_bytes = 2.0 }",
        );
        assert_eq!(check("cluster", &nodes), Vec::<String>::new());
        for bad in ["[[nodes]]\ncount = 2\ngpus = 8", "[[nodes]]\ncount = 0\ngpus = 8\ntype = \"H20\"", "x = 1"] {
            assert!(!check("cluster", &scenario(bad)).is_empty(), "{bad}");
        }
    }
}
