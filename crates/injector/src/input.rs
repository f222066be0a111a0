//! Input of `inject`, `explain` and `lint`: manifests, and their objects' namespaces.

use clap::Args;
use injection::Namespaces;
use injection::manifests::{MAX_REVISION, label};
use mesh::{InputProblem, Problems, pod::KubernetesObject};
use serde_json::Value;
use std::{collections::BTreeMap, fs, io};

const STANDARD_INPUT: &str = "input";

#[derive(Args)]
pub(crate) struct Input {
    /// Manifest, YAML or JSON; - is standard input; repeatable
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub(crate) filenames: Vec<String>,
    /// Namespace of objects without one
    #[arg(short, long, value_name = "NAME", default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,
    /// Labels of all namespaces, overriding the manifests' Namespaces; empty for none
    #[arg(long, value_name = "KEY=VALUE,..")]
    pub(crate) namespace_labels: Option<String>,
    /// Annotation of all namespaces, such as OpenShift's; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) namespace_annotations: Vec<(String, String)>,
}

pub(crate) struct InputFile {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Input {
    /// Readable manifests, namespaces from the flags, and problems of unreadable files.
    pub(crate) fn read(&self) -> (Vec<InputFile>, Namespaces, Vec<InputProblem>) {
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for name in &self.filenames {
            match read(name, "a manifest as YAML or JSON, or - for standard input") {
                Ok(text) => {
                    let name = if name == "-" { STANDARD_INPUT } else { name };
                    files.push(InputFile { name: name.to_owned(), text });
                }
                Err(unread) => problems.push(InputProblem::with_item("--filename", name, unread)),
            }
        }
        let namespaces = self.namespaces().unwrap_or_else(|Problems(found)| {
            problems.extend(found);
            Namespaces::default()
        });
        (files, namespaces, problems)
    }

    pub(crate) fn is_standard_input(&self, name: &str) -> bool {
        name == STANDARD_INPUT && !self.filenames.iter().any(|given| given == name)
    }

    fn namespaces(&self) -> Result<Namespaces, Problems> {
        let labels = self.namespace_labels.as_deref().map(labels).transpose()?;
        let annotations = self.namespace_annotations.iter().cloned().collect();
        Ok(Namespaces::new(&self.namespace, labels, annotations))
    }
}

/// Reads a file, or standard input for `-`; fails with the problem.
pub(crate) fn read(name: &str, expected: &str) -> Result<String, String> {
    let text = match name {
        "-" => io::read_to_string(io::stdin()),
        path => fs::read_to_string(path),
    };
    text.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => format!("is not UTF-8; expected {expected}"),
        io::ErrorKind::IsADirectory => "is a folder; give each of its files with a separate flag".to_owned(),
        _ => format!("can't be read: {error}; expected {expected}"),
    })
}

pub(crate) fn objects(flag: &str, names: &[String], expected: &str) -> Result<Vec<Value>, Problems> {
    let (mut objects, mut problems) = (Vec::new(), Vec::new());
    for name in names {
        let text = read(name, expected);
        let text = text.map_err(|unread| Problems(vec![InputProblem::with_item(flag, name, unread)]));
        match text.and_then(|text| KubernetesObject::all(&format!("{flag} {name}"), &text)) {
            Ok(found) => objects.extend(found.into_iter().map(|object| object.value)),
            Err(Problems(found)) => problems.extend(found),
        }
    }
    Problems::check(problems).map(|()| objects)
}

fn labels(text: &str) -> Result<BTreeMap<String, String>, Problems> {
    let (mut labels, mut problems) = (BTreeMap::new(), Vec::new());
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        match pair(item) {
            Ok((key, value)) => drop(labels.insert(key, value)),
            Err(expected) => problems.push(InputProblem::with_item(
                "--namespace-labels",
                item,
                format!("is not a label; {expected}, such as istio-injection=enabled"),
            )),
        }
    }
    Problems::check(problems).map(|()| labels)
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

pub(crate) fn namespace(text: &str) -> Result<String, String> {
    label(text, 63).map(|()| text.to_owned())
}

pub(crate) fn revision(text: &str) -> Result<String, String> {
    label(text, MAX_REVISION).map(|()| text.to_owned())
}
