//! The configuration, read once from the files that flags name, or from a cluster's ConfigMaps: for commands that answer one question
//! and end.
//!
//! A file holds the text itself, as Istio's own commands want it, or the whole ConfigMap as `kubectl get -o yaml` prints it.

use crate::input;
use clap::Args;
use injection::configuration::{Configuration, ConfigurationText, Texts};
use mesh::{InputProblem, Problems, pod::KubernetesObject};
use serde_json::Value;
use std::{
    array, fs,
    path::{Path, PathBuf},
};

/// Where the configuration is. What is left out means Istio's defaults.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ConfigurationSources {
    /// Policy, templates and selectors: key `config` of the ConfigMap istio-sidecar-injector
    #[arg(long = "inject-config", alias = "injectConfigFile", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Values of the templates: key `values` of the same ConfigMap
    #[arg(long, alias = "valuesFile", value_name = "FILE")]
    pub(crate) values: Option<PathBuf>,
    /// MeshConfig: key `mesh` of the ConfigMap istio
    #[arg(long = "mesh-config", alias = "meshConfigFile", value_name = "FILE")]
    pub(crate) mesh: Option<PathBuf>,
}

/// A text of a configuration: the flag that names its file, and its place in a ConfigMap.
struct ConfigurationPart {
    flag: &'static str,
    key: &'static str,
    map: &'static str,
}

const PARTS: [ConfigurationPart; 3] = [
    ConfigurationPart { flag: "--inject-config", key: "config", map: "istio-sidecar-injector" },
    ConfigurationPart { flag: "--values", key: "values", map: "istio-sidecar-injector" },
    ConfigurationPart { flag: "--mesh-config", key: "mesh", map: "istio" },
];

/// ConfigMaps of a file or of a cluster.
pub(crate) struct Maps {
    /// Names the file or the cluster in problems.
    pub(crate) name: String,
    /// The name and the data of each.
    pub(crate) maps: Vec<(String, Value)>,
}

/// Reads the configuration, with every file that can't be read and every problem in those that can. Where there is one,
/// the configuration is good for finding problems elsewhere and for nothing else. Files win over what a cluster has, text by
/// text. A revision takes the place of that of the values.
pub(crate) fn configuration(
    sources: &ConfigurationSources,
    cluster: Option<&Maps>,
    revision: Option<&str>,
) -> (Configuration, Vec<InputProblem>) {
    let mut problems = Vec::new();
    let paths = [&sources.config, &sources.values, &sources.mesh];
    let files: [Option<SourceFile>; 3] = array::from_fn(|at| {
        let read = file(&PARTS[at], paths[at].as_deref()?);
        read.map_err(|Problems(found)| problems.extend(found)).ok()
    });
    let [config, values, mesh] = array::from_fn(|at| {
        let part = &PARTS[at];
        let given = match (&files[at], &files[0]) {
            (Some(file), _) => file.text(part).map_err(|problem| problems.push(problem)).ok(),
            // A ConfigMap holds the values beside the configuration.
            (None, Some(config)) if part.key == "values" => config.maps.beside(part),
            (None, _) => None,
        };
        given.or_else(|| cluster?.beside(part))
    });
    let values = match revision {
        Some(revision) => with_revision(values, revision, &mut problems),
        None => values,
    };
    let (configuration, found) = Configuration::read_in_part(&Texts { config, values, mesh });
    problems.extend(found);
    (configuration, problems)
}

/// A file's text, and the ConfigMaps in it, if that is what it holds.
struct SourceFile {
    text: String,
    maps: Maps,
}

fn file(part: &ConfigurationPart, path: &Path) -> Result<SourceFile, Problems> {
    let name = format!("{} {}", part.flag, path.display());
    let text = fs::read_to_string(path).map_err(|error| {
        let text =
            format!("can't be read: {error}; expected the text {}, or a ConfigMap that holds it", part.key);
        Problems(vec![InputProblem::of(&name, text)])
    })?;
    let maps = maps(KubernetesObject::all(&name, &text)?.into_iter().map(|object| object.value));
    Ok(SourceFile { text, maps: Maps { name, maps } })
}

fn maps(objects: impl Iterator<Item = Value>) -> Vec<(String, Value)> {
    let maps = objects.filter(|object| object["kind"] == "ConfigMap");
    maps.map(|mut map| (map["metadata"]["name"].as_str().unwrap_or_default().to_owned(), map["data"].take()))
        .collect()
}

/// Reads files with ConfigMaps as kubectl prints them. Others may be among them.
pub(crate) fn of_config_maps(names: &[String]) -> Result<Configuration, Problems> {
    const FLAG: &str = "--filename";
    let expected = "ConfigMaps as kubectl get configmap -o yaml prints them";
    let found = maps(input::objects(FLAG, names, expected)?.into_iter());
    let is_of = |part: &ConfigurationPart, name: &str| {
        name.strip_prefix(part.map).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let mut problems = Vec::new();
    let [config, values, mesh] = PARTS.map(|part| {
        let maps = found.iter().filter(|(name, data)| is_of(&part, name) && data.get(part.key).is_some());
        let of_part = Maps { name: FLAG.to_owned(), maps: maps.cloned().collect() };
        let text = match of_part.maps.is_empty() {
            true if part.key == "values" => return None,
            true => {
                let (map, key) = (part.map, part.key);
                let text =
                    format!("holds no ConfigMap {map} with {key:?}; expected it as it is in the cluster");
                Err(InputProblem::of(FLAG, text))
            }
            false => of_part.text(&part),
        };
        text.map_err(|problem| problems.push(problem)).ok()
    });
    Problems::check(problems)?;
    Configuration::read(&Texts { config, values, mesh })
}

impl SourceFile {
    fn text(&self, part: &ConfigurationPart) -> Result<ConfigurationText, InputProblem> {
        match self.maps.maps.is_empty() {
            true => Ok(ConfigurationText { name: self.maps.name.clone(), text: self.text.clone() }),
            false => self.maps.text(part),
        }
    }
}

impl Maps {
    fn text(&self, part: &ConfigurationPart) -> Result<ConfigurationText, InputProblem> {
        let found = self.found(part);
        let text = match &found[..] {
            [one] => return Ok(one.clone()),
            [] => format!(
                "holds ConfigMaps, but none with {:?}; expected {} as it is in the cluster",
                part.key, part.map
            ),
            several => {
                let names: Vec<&str> = several.iter().map(|text| text.name.as_str()).collect();
                format!("holds {} texts {:?} ({}); give one", several.len(), part.key, names.join(", "))
            }
        };
        Err(InputProblem::of(&self.name, text))
    }

    /// `None` unless exactly one ConfigMap has it.
    fn beside(&self, part: &ConfigurationPart) -> Option<ConfigurationText> {
        self.text(part).ok()
    }

    fn found(&self, part: &ConfigurationPart) -> Vec<ConfigurationText> {
        let of = |(map, data): &(String, Value)| {
            let text = data.get(part.key)?.as_str()?.to_owned();
            Some(ConfigurationText {
                name: format!("{}: ConfigMap {map}: data.{}", self.name, part.key),
                text,
            })
        };
        self.maps.iter().filter_map(of).collect()
    }
}

fn with_revision(
    values: Option<ConfigurationText>,
    revision: &str,
    problems: &mut Vec<InputProblem>,
) -> Option<ConfigurationText> {
    let ConfigurationText { name, text } =
        values.unwrap_or_else(|| ConfigurationText { name: "--values".to_owned(), text: "{}".to_owned() });
    match mesh::pod::values(&name, &text) {
        Ok(mut documents) => {
            documents.retain(|document| !document.is_null());
            match &mut documents[..] {
                [] => Some(serde_json::json!({ "revision": revision }).to_string()),
                [document @ Value::Object(_)] => {
                    document["revision"] = revision.into();
                    Some(document.to_string())
                }
                // Its reader reports what is wrong with it.
                _ => Some(text),
            }
        }
        Err(Problems(found)) => {
            problems.extend(found);
            None
        }
    }
    .map(|text| ConfigurationText { name, text })
}
