//! The files of the configuration and of the certificate, and readers of their contents.

use super::reload::{FileContents, Files, WatchedFile};
use super::tls::{self, IdentityError};
use crate::sources::ConfigurationSources;
use injection::Configuration;
use injection::configuration::{ConfigurationText, Texts};
use injection::trial::{TemplateTrial, trial};
use mesh::{InputProblem, Problems};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};

/// Each has the key of a ConfigMap that it stands for: `config`, `values` or `mesh`.
#[derive(Clone, Debug)]
pub(super) struct ConfigurationFiles {
    keys: Vec<&'static str>,
    pub(super) files: Files,
}

impl ConfigurationFiles {
    /// A text that a flag names is in that file; the others are in the folder, if there is one, as a ConfigMap is mounted. Of
    /// the folder, `config` must exist.
    pub(super) fn new(folder: Option<&Path>, sources: &ConfigurationSources) -> Self {
        let all = [("config", &sources.config), ("values", &sources.values), ("mesh", &sources.mesh)];
        let file = |(key, path): (&'static str, &Option<PathBuf>)| match (path, folder) {
            (Some(path), _) => Some((key, WatchedFile { path: path.clone(), optional: false })),
            (None, Some(folder)) => {
                Some((key, WatchedFile { path: folder.join(key), optional: key != "config" }))
            }
            (None, None) => None,
        };
        let (keys, files) = all.into_iter().filter_map(file).unzip();
        Self { keys, files: Files(files) }
    }

    pub(super) fn parse(&self, contents: &FileContents) -> Result<Configuration, Problems> {
        let (mut texts, mut problems) = (Texts::default(), Vec::new());
        for ((key, file), bytes) in self.keys.iter().zip(&self.files.0).zip(contents) {
            let Some(bytes) = bytes else { continue };
            let name = file.path.display().to_string();
            let text = match std::str::from_utf8(bytes) {
                Ok(text) => Some(ConfigurationText::new(&name, text)),
                Err(error) => {
                    problems.push(InputProblem::of(&name, format!("is not text: {error}; expected UTF-8")));
                    None
                }
            };
            match *key {
                "config" => texts.config = text,
                "values" => texts.values = text,
                _ => texts.mesh = text,
            }
        }
        let (configuration, others) = Configuration::read_in_part(&texts);
        Problems::check(problems.into_iter().chain(others))?;
        for warning in &configuration.warnings {
            tracing::warn!(warning, "the configuration has a likely mistake");
        }
        Ok(configuration)
    }
}

/// Tries those of the configuration on plain pods. Problems of those that a pod has to name are logged.
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
                tracing::warn!(template, error, "a template can't be filled; pods that name it are refused");
            }
        }
    }
    Problems::check(problems)
}

pub(super) fn certificate_files(certificate: &Path, key: &Path) -> Files {
    let file = |path: &Path| WatchedFile { path: path.to_owned(), optional: false };
    Files(vec![file(certificate), file(key)])
}

pub(super) fn certificate(
    contents: &FileContents,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), IdentityError> {
    let text = |at: usize| contents.get(at).and_then(Option::as_deref).unwrap_or_default();
    tls::from_pem(text(0), text(1))
}
