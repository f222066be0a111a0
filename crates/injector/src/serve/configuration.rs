//! Configuration files, and their parser.

use super::reload::{FileContents, Files, WatchedFile};
use crate::sources::ConfigurationSources;
use injection::Configuration;
use injection::configuration::{ConfigurationText, Texts};
use injection::trial::{TemplateTrial, trial};
use mesh::{InputProblem, Problems};
use std::path::{Path, PathBuf};

/// Files of `config`, `values` and `mesh`. A flag names one file; the other files are in the folder, if given, such as a mounted
/// ConfigMap. In the folder, `config` must exist.
pub(super) fn files(folder: Option<&Path>, sources: &ConfigurationSources) -> Files {
    let all = [("config", &sources.config), ("values", &sources.values), ("mesh", &sources.mesh)];
    let file = |(key, path): (&'static str, &Option<PathBuf>)| {
        let optional = path.is_none() && key != "config";
        let path = path.clone().or_else(|| Some(folder?.join(key)))?;
        Some(WatchedFile { key, path, optional })
    };
    Files(all.into_iter().filter_map(file).collect())
}

pub(super) fn parse(files: &Files, contents: &FileContents) -> Result<Configuration, Problems> {
    let mut problems = Vec::new();
    let mut text = |key: &str| {
        let file = files.0.iter().find(|file| file.key == key)?;
        let name = file.path.display().to_string();
        let text = std::str::from_utf8(contents.get(key)?).map_err(|error| {
            problems.push(InputProblem::of(&name, format!("is not UTF-8: {error}")));
        });
        Some(ConfigurationText::new(&name, text.ok()?))
    };
    let texts = Texts { config: text("config"), values: text("values"), mesh: text("mesh") };
    let (configuration, others) = Configuration::read_in_part(&texts);
    Problems::check(problems.into_iter().chain(others))?;
    for warning in &configuration.warnings {
        tracing::warn!(warning, "the configuration has a likely mistake");
    }
    Ok(configuration)
}

/// Tries the configuration's templates on plain pods. Problems in templates that are not defaults are only logged.
pub(super) fn try_templates(configuration: &Configuration) -> Result<(), Problems> {
    let mut problems = Vec::new();
    let written = trial(configuration).into_iter().filter(|tried| !tried.is_built_in);
    for TemplateTrial { template, is_default, problems: found, warnings, .. } in written {
        for warning in warnings {
            tracing::warn!(template, warning, "a template has a likely mistake");
        }
        if is_default {
            problems.extend(found);
        } else {
            for problem in found {
                let error = problem.to_string();
                tracing::warn!(template, error, "a template fails to render; pods that name it are refused");
            }
        }
    }
    Problems::check(problems)
}
