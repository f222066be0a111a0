//! The configuration, read once from the files that flags name, or from a cluster's ConfigMaps: for commands that answer one question
//! and end.
//!
//! A file holds the text itself, as Istio's own commands want it, or the whole ConfigMap as `kubectl get -o yaml` prints it.

use crate::input;
use clap::Args;
use injection::configuration::{Configuration, ConfigurationText, Texts};
use mesh::{InputProblem, Problems};
use serde_json::Value;
use std::{
    fs,
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

const CONFIG: ConfigurationPart =
    ConfigurationPart { flag: "--inject-config", key: "config", map: "istio-sidecar-injector" };
const VALUES: ConfigurationPart =
    ConfigurationPart { flag: "--values", key: "values", map: "istio-sidecar-injector" };
const MESH: ConfigurationPart = ConfigurationPart { flag: "--mesh-config", key: "mesh", map: "istio" };

/// Reads the configuration, with every file that can't be read and every problem in those that can. Where there is one,
/// the configuration is good for finding problems elsewhere and for nothing else. A revision takes the place of that of
/// the values.
pub(crate) fn configuration(
    sources: &ConfigurationSources,
    revision: Option<&str>,
) -> (Configuration, Vec<InputProblem>) {
    read(sources, None, revision)
}

/// ConfigMaps of a file or of a cluster.
pub(crate) struct Maps {
    /// Names the file or the cluster in problems.
    pub(crate) name: String,
    /// The name and the data of each.
    pub(crate) maps: Vec<(String, Value)>,
}

/// The same over what a cluster has: files win, text by text.
pub(crate) fn configuration_over(
    sources: &ConfigurationSources,
    cluster: &Maps,
) -> (Configuration, Vec<InputProblem>) {
    read(sources, Some(cluster), None)
}

fn read(
    sources: &ConfigurationSources,
    cluster: Option<&Maps>,
    revision: Option<&str>,
) -> (Configuration, Vec<InputProblem>) {
    let mut problems = Vec::new();
    let mut read = |part: &ConfigurationPart, path: Option<&Path>| {
        let found = path.map(|path| file(part, path));
        found.and_then(|found| found.map_err(|Problems(all)| problems.extend(all)).ok())
    };
    let config = read(&CONFIG, sources.config.as_deref());
    let values = read(&VALUES, sources.values.as_deref());
    let mesh = read(&MESH, sources.mesh.as_deref());

    // A ConfigMap holds the values beside the configuration.
    let values = match (values, &config) {
        (Some(file), _) => file.text(&VALUES).map(Some),
        (None, Some(file)) => Ok(file.maps.beside(&VALUES)),
        (None, None) => Ok(None),
    };
    let config = config.map(|file| file.text(&CONFIG)).transpose();
    let mesh = mesh.map(|file| file.text(&MESH)).transpose();
    let mut take = |text: Result<Option<ConfigurationText>, InputProblem>| {
        text.map_err(|problem| problems.push(problem)).ok().flatten()
    };
    let of_cluster = |part: &ConfigurationPart| cluster.and_then(|cluster| cluster.beside(part));
    let config = take(config).or_else(|| of_cluster(&CONFIG));
    let values = take(values).or_else(|| of_cluster(&VALUES));
    let mesh = take(mesh).or_else(|| of_cluster(&MESH));
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
    let maps = maps(&name, &text)?;
    Ok(SourceFile { text, maps: Maps { name, maps } })
}

/// The name and the data of each, alone or in lists.
fn maps(name: &str, text: &str) -> Result<Vec<(String, Value)>, Problems> {
    let objects = mesh::pod::located(name, text)?.into_iter().map(|object| object.value);
    let maps = objects.filter(|object| object["kind"] == "ConfigMap");
    let maps = maps.map(|map| {
        let name = map["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        (name, map["data"].clone())
    });
    Ok(maps.collect())
}

/// Reads files with ConfigMaps as kubectl prints them. Others may be among them.
pub(crate) fn of_config_maps(names: &[String]) -> Result<Configuration, Problems> {
    const FLAG: &str = "--filename";
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for name in names {
        let read = input::read(name).map_err(|error| {
            let text = format!(
                "can't be read: {error}; expected ConfigMaps as kubectl get configmap -o yaml prints them"
            );
            Problems(vec![InputProblem::with_item(FLAG, name, text)])
        });
        match read.and_then(|text| maps(&format!("{FLAG} {name}"), &text)) {
            Ok(maps) => found.extend(maps),
            Err(Problems(more)) => problems.extend(more),
        }
    }
    let is_of = |part: &ConfigurationPart, name: &str| {
        name.strip_prefix(part.map).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let mut take = |part: &ConfigurationPart, is_needed: bool| {
        let maps = found.iter().filter(|(name, data)| is_of(part, name) && data.get(part.key).is_some());
        let of_part = Maps { name: FLAG.to_owned(), maps: maps.cloned().collect() };
        if of_part.maps.is_empty() && !is_needed {
            return None;
        }
        let text = if of_part.maps.is_empty() {
            let text = format!(
                "holds no ConfigMap {} with {:?}; expected it as it is in the cluster",
                part.map, part.key
            );
            Err(InputProblem::of(FLAG, text))
        } else {
            of_part.text(part)
        };
        text.map_err(|problem| problems.push(problem)).ok()
    };
    let (config, values, mesh) = (take(&CONFIG, true), take(&VALUES, false), take(&MESH, true));
    Problems::check(problems)?;
    Configuration::read(&Texts { config, values, mesh })
}

impl SourceFile {
    /// The text of a ConfigMap, or the file itself.
    fn text(self, part: &ConfigurationPart) -> Result<ConfigurationText, InputProblem> {
        match self.maps.maps.is_empty() {
            true => Ok(ConfigurationText { name: self.maps.name, text: self.text }),
            false => self.maps.text(part),
        }
    }
}

impl Maps {
    fn text(&self, part: &ConfigurationPart) -> Result<ConfigurationText, InputProblem> {
        let name = &self.name;
        let found = self.found(part);
        match &found[..] {
            [one] => Ok(one.clone()),
            [] => {
                let text = format!(
                    "holds ConfigMaps, but none with {:?}; expected {} as it is in the cluster",
                    part.key, part.map
                );
                Err(InputProblem::of(name, text))
            }
            several => {
                let names: Vec<&str> = several.iter().map(|text| text.name.as_str()).collect();
                let text =
                    format!("holds {} texts {:?} ({}); give one", several.len(), part.key, names.join(", "));
                Err(InputProblem::of(name, text))
            }
        }
    }

    /// `None` unless exactly one ConfigMap has it.
    fn beside(&self, part: &ConfigurationPart) -> Option<ConfigurationText> {
        match &self.found(part)[..] {
            [one] => Some(one.clone()),
            _ => None,
        }
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
        values.unwrap_or_else(|| ConfigurationText { name: VALUES.flag.to_owned(), text: "{}".to_owned() });
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
