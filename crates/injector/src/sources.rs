//! Configuration from files given by flags, or from a cluster's ConfigMaps, for commands that run once.
//!
//! A file contains the text itself, as for Istio's own commands, or the whole ConfigMap in the output of `kubectl get -o yaml`.

use crate::input;
use clap::Args;
use injection::configuration::{Configuration, ConfigurationText, Texts};
use mesh::{InputProblem, Problems, data::document::mapping, pod::KubernetesObject};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::{array, fs};

/// Configuration files; Istio's defaults replace missing ones.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ConfigurationSources {
    /// Policy, templates and selectors: key `config` of the ConfigMap istio-sidecar-injector
    #[arg(long = "inject-config", alias = "injectConfigFile", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Template values: key `values` of the same ConfigMap
    #[arg(long, alias = "valuesFile", value_name = "FILE")]
    pub(crate) values: Option<PathBuf>,
    /// MeshConfig: key `mesh` of the ConfigMap istio
    #[arg(long = "mesh-config", alias = "meshConfigFile", value_name = "FILE")]
    pub(crate) mesh: Option<PathBuf>,
}

/// Part of the configuration: the flag for its file, and its ConfigMap key.
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

/// Reads the configuration, and returns all problems of the files and their contents. A configuration with problems only
/// serves to find further problems. Each file's text overrides the cluster's, and `revision` overrides the one in the values.
pub(crate) fn configuration(
    sources: &ConfigurationSources,
    cluster: Option<&SourceTexts>,
    revision: Option<&str>,
) -> (Configuration, Vec<InputProblem>) {
    let mut problems = Vec::new();
    let paths = [&sources.config, &sources.values, &sources.mesh];
    let files: [Option<SourceTexts>; 3] = array::from_fn(|at| {
        let read = file(&PARTS[at], paths[at].as_deref()?);
        read.map_err(|Problems(found)| problems.extend(found)).ok()
    });
    let [config, mut values, mesh] = array::from_fn(|at| {
        let part = &PARTS[at];
        let given = match (&files[at], &files[0]) {
            (Some(file), _) => file.text(part).map_err(|problem| problems.push(problem)).ok(),
            // A ConfigMap contains the values beside the configuration.
            (None, Some(config)) if part.key == "values" => config.text(part).ok(),
            (None, _) => None,
        };
        given.or_else(|| cluster?.text(part).ok())
    });
    if let Some(revision) = revision {
        let changed = with_revision(values, revision);
        values = changed.map_err(|Problems(found)| problems.extend(found)).ok();
    }
    let (configuration, found) = Configuration::read_in_part(&Texts { config, values, mesh });
    problems.extend(found);
    (configuration, problems)
}

fn with_revision(values: Option<ConfigurationText>, revision: &str) -> Result<ConfigurationText, Problems> {
    let ConfigurationText { name, text } = values.unwrap_or_else(|| ConfigurationText::new("--values", ""));
    let mut document = mapping(&name, &text)?;
    document["revision"] = revision.into();
    Ok(ConfigurationText { name, text: document.to_string() })
}

pub(crate) struct SourceTexts {
    name: String,
    texts: Vec<(&'static str, ConfigurationText)>,
}

impl SourceTexts {
    pub(crate) fn new(name: String) -> Self {
        Self { name, texts: Vec::new() }
    }

    pub(crate) fn add_map(&mut self, map: &str, data: &Value) {
        for ConfigurationPart { key, .. } in &PARTS {
            if let Some(text) = data[key].as_str() {
                let name = format!("{}: ConfigMap {map}: data.{key}", self.name);
                self.texts.push((key, ConfigurationText::new(&name, text)));
            }
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.texts.iter().any(|(of, _)| *of == key)
    }

    /// # Errors
    /// Fails unless exactly one ConfigMap has the text.
    fn text(&self, part: &ConfigurationPart) -> Result<ConfigurationText, InputProblem> {
        let found = self.texts.iter().filter(|(key, _)| *key == part.key).map(|(_, text)| text);
        let text = match &found.collect::<Vec<_>>()[..] {
            [one] => return Ok((*one).clone()),
            [] => format!(
                "holds ConfigMaps, but none with {:?}; expected {} from the cluster",
                part.key, part.map
            ),
            several => {
                let names: Vec<&str> = several.iter().map(|text| text.name.as_str()).collect();
                format!("holds {} {:?} keys ({}); give one", several.len(), part.key, names.join(", "))
            }
        };
        Err(InputProblem::of(&self.name, text))
    }
}

fn file(part: &ConfigurationPart, path: &Path) -> Result<SourceTexts, Problems> {
    let name = format!("{} {}", part.flag, path.display());
    let text = fs::read_to_string(path).map_err(|error| {
        let text =
            format!("can't be read: {error}; expected the ConfigMap, or the value of its key {}", part.key);
        Problems(vec![InputProblem::of(&name, text)])
    })?;
    let maps = maps(KubernetesObject::all(&name, &text)?.into_iter().map(|object| object.value));
    let mut found = SourceTexts::new(name.clone());
    maps.iter().for_each(|(map, data)| found.add_map(map, data));
    if maps.is_empty() {
        found.texts.push((part.key, ConfigurationText { name, text }));
    }
    Ok(found)
}

fn maps(objects: impl Iterator<Item = Value>) -> Vec<(String, Value)> {
    let maps = objects.filter(|object| object["kind"] == "ConfigMap");
    maps.map(|mut map| (map["metadata"]["name"].as_str().unwrap_or_default().to_owned(), map["data"].take()))
        .collect()
}

/// Reads ConfigMaps from kubectl's output, which may include other objects.
pub(crate) fn of_config_maps(names: &[String]) -> Result<Configuration, Problems> {
    const FLAG: &str = "--filename";
    let expected = "output of kubectl get configmap -o yaml";
    let found = maps(input::objects(FLAG, names, expected)?.into_iter());
    let mut problems = Vec::new();
    let [config, values, mesh] = PARTS.map(|part| {
        let ConfigurationPart { key, map, .. } = part;
        let is_of =
            |name: &str| name.strip_prefix(map).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        let mut texts = SourceTexts::new(FLAG.to_owned());
        found.iter().filter(|(name, _)| is_of(name)).for_each(|(name, data)| texts.add_map(name, data));
        let text = match texts.has(key) {
            true => texts.text(&part),
            false if key == "values" => return None,
            false => {
                let text = format!("holds no ConfigMap {map} with {key:?}; expected it from the cluster");
                Err(InputProblem::of(FLAG, text))
            }
        };
        text.map_err(|problem| problems.push(problem)).ok()
    });
    Problems::check(problems)?;
    Configuration::read(&Texts { config, values, mesh })
}
