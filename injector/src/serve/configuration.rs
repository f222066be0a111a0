//! Which files the configuration and the certificate are in, and how they are understood.

use super::files::{Contents, File, Files};
use super::tls::{self, Refused};
use crate::sources::Sources;
use injection::Configuration;
use injection::configuration::{Text, Texts};
use injection::trial::{Trial, trial};
use mesh::{Problem, Problems};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Config,
    Values,
    Mesh,
}

/// Where the texts of a configuration are.
#[derive(Clone, Debug)]
pub(super) struct Place {
    keys: Vec<Key>,
    pub(super) files: Files,
}

impl Place {
    /// A text that a flag names is in that file; the others are in the folder, if there is one, as a ConfigMap is mounted. Of
    /// the folder, `config` must exist.
    pub(super) fn new(folder: Option<&Path>, sources: &Sources) -> Self {
        let all = [
            (Key::Config, "config", &sources.config),
            (Key::Values, "values", &sources.values),
            (Key::Mesh, "mesh", &sources.mesh),
        ];
        let file = |(key, name, path): (Key, &str, &Option<PathBuf>)| match (path, folder) {
            (Some(path), _) => Some((key, File { path: path.clone(), optional: false })),
            (None, Some(folder)) => {
                Some((key, File { path: folder.join(name), optional: key != Key::Config }))
            }
            (None, None) => None,
        };
        let (keys, files) = all.into_iter().filter_map(file).unzip();
        Self { keys, files: Files(files) }
    }

    /// Parses the contents of the files.
    pub(super) fn understand(&self, contents: &Contents) -> Result<Configuration, Problems> {
        let names: Vec<String> = self.files.0.iter().map(|file| file.path.display().to_string()).collect();
        let (mut texts, mut problems) = (Texts::default(), Vec::new());
        for ((key, name), bytes) in self.keys.iter().zip(&names).zip(&contents.texts) {
            let Some(bytes) = bytes else { continue };
            let text = match std::str::from_utf8(bytes) {
                Ok(text) => Some(Text { name, text }),
                Err(error) => {
                    problems.push(Problem::of(name, format!("is not text: {error}; expected UTF-8")));
                    None
                }
            };
            match key {
                Key::Config => texts.config = text,
                Key::Values => texts.values = text,
                Key::Mesh => texts.mesh = text,
            }
        }
        match Configuration::read(&texts) {
            Ok(configuration) if problems.is_empty() => {
                for warning in &configuration.warnings {
                    tracing::warn!(warning, "the configuration has a likely mistake");
                }
                Ok(configuration)
            }
            Ok(_) => Err(Problems(problems)),
            Err(others) => {
                problems.extend(others.0);
                Err(Problems(problems))
            }
        }
    }
}

/// Tries the templates of a configuration on a plain pod. Problems of those that a pod has to name are logged.
pub(super) fn tried(configuration: &Configuration) -> Result<(), Problems> {
    let mut problems = Vec::new();
    for Trial { template, is_default, problems: found, warnings } in trial(configuration) {
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
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}

/// The files of a certificate and its key.
pub(super) fn certificate_files(certificate: &Path, key: &Path) -> Files {
    let file = |path: &Path| File { path: path.to_owned(), optional: false };
    Files(vec![file(certificate), file(key)])
}

/// Parses the contents of these files.
pub(super) fn certificate(
    contents: &Contents,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Refused> {
    let text = |at: usize| contents.texts.get(at).and_then(Option::as_deref).unwrap_or_default();
    tls::from_pem(text(0), text(1))
}
