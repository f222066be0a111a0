//! JSON schemas of all documents printed for programs: `docs/schemas`, generated from the types.
//!
//! `UPDATE_SCHEMAS=1 cargo test --bin sidecar-init contract` writes them. `tests/cli/contract.rs` validates real outputs.

use crate::cli::command::COMMANDS;
use crate::cli::report::{Answers, VersionedDocument};
use crate::cli::{ambient_host, change, lint, render, report, status as cli_status, verify};
use diagnose::{
    compare::DiffReport, explain::PacketReport, overview::Overview, picture::TrafficReport, status, trace,
};
use injection::cluster_lint::ClusterLintReport;
use mesh::Setting;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

struct Output {
    name: &'static str,
    commands: &'static [&'static str],
    schema: fn() -> Value,
}

const OUTPUTS: &[Output] = &[
    Output {
        name: "ambient-host",
        commands: &["ambient-host"],
        schema: schema::<ambient_host::AmbientHostReport>,
    },
    Output { name: "answers", commands: &[], schema: schema::<Answers<'_>> },
    Output {
        name: "change",
        commands: &["apply", "clean", "cni repair"],
        schema: schema::<change::ChangeReport>,
    },
    Output { name: "cluster-lint", commands: &[], schema: versioned::<ClusterLintReport> },
    Output { name: "diff", commands: &["diff"], schema: schema::<DiffReport> },
    Output { name: "error", commands: &[], schema: schema::<report::ErrorReport> },
    Output { name: "explain", commands: &["explain"], schema: schema::<PacketReport> },
    Output { name: "explain-all", commands: &[], schema: schema::<TrafficReport> },
    Output { name: "lint", commands: &["lint"], schema: schema::<lint::LintReport<'_>> },
    Output { name: "render", commands: &["render"], schema: schema::<render::RenderedRules> },
    Output { name: "status", commands: &["status"], schema: schema::<status::CaptureStatus> },
    Output { name: "status-kernel", commands: &[], schema: schema::<cli_status::KernelReport<'_>> },
    Output { name: "status-all", commands: &[], schema: schema::<Overview> },
    Output { name: "trace", commands: &["trace"], schema: schema::<trace::Block> },
    Output { name: "verify", commands: &["verify"], schema: schema::<verify::VerifyReport<'_>> },
];

fn schema<T: JsonSchema>() -> Value {
    versioned::<VersionedDocument<T>>()
}

/// The schema of another program's document that has its own version.
fn versioned<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    without_formats(&mut schema);
    schema
}

/// Removes number formats, which are names of Rust types.
fn without_formats(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            keys.retain(|key, value| key != "format" || !value.is_string());
            keys.values_mut().for_each(without_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(without_formats),
        _ => {}
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas")
}

#[test]
fn schemas_match_the_types() {
    let update = env::var_os("UPDATE_SCHEMAS").is_some();
    for Output { name, schema, .. } in OUTPUTS {
        let path = folder().join(format!("{name}.json"));
        let mut schema = schema();
        schema["title"] = format!("sidecar-init: {name}").into();
        let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
        if update {
            fs::write(&path, &text).expect("the folder of schemas is there");
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(written == text, "{name} differs: write it with UPDATE_SCHEMAS=1");
    }
    let files =
        fs::read_dir(folder()).expect("the folder of schemas").map(|entry| entry.expect("an entry").path());
    let names = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let names: BTreeSet<String> =
        names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    assert_eq!(names, OUTPUTS.iter().map(|output| output.name.to_owned()).collect());
}

#[test]
fn every_command_with_a_format_has_a_schema() {
    let formats = [Setting::Format, Setting::ExplainFormat, Setting::LintFormat, Setting::RenderFormat];
    for entry in COMMANDS {
        let takes = formats.iter().any(|setting| entry.takes(setting.row()));
        let forms = OUTPUTS.iter().filter(|output| output.commands.contains(&entry.name)).count();
        assert_eq!(forms, usize::from(takes), "{}", entry.name);
    }
}

/// Fields of a schema and its definitions, each with its value types.
fn fields(schema: &Value, into: &mut BTreeMap<String, BTreeSet<String>>) {
    match schema {
        Value::Object(keys) => {
            let properties = keys.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                into.entry(name.clone()).or_default().insert(kind(property));
            }
            keys.values().for_each(|value| fields(value, into));
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, into)),
        _ => {}
    }
}

/// Type of a field's values; null is ignored.
fn kind(property: &Value) -> String {
    let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match (&property["type"], property.get("$ref").or(property.get("anyOf"))) {
        (Value::Array(kinds), _) => kinds.iter().map(of).find(|kind| kind != "null").unwrap_or_default(),
        (Value::String(kind), _) => kind.clone(),
        (_, Some(_)) => "object".to_owned(),
        other => panic!("{other:?} in {property}"),
    }
}

#[test]
fn field_names_have_one_kind_everywhere() {
    let mut found = BTreeMap::new();
    OUTPUTS.iter().for_each(|output| fields(&(output.schema)(), &mut found));
    for (name, kinds) in &found {
        let is_snake = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        assert!(is_snake, "{name}");
        assert_eq!(kinds.len(), 1, "{name} has several types: {kinds:?}");
    }
}
