//! What manifests hold of a namespace's environments: read once, with the place of each object, so that each message about
//! one later names its file and line.
//!
//! Of an object that is given twice the last one counts, as `kubectl apply` would have it.

use crate::input::read;
use injection::environment::{
    existing::Existing,
    inventory::{InventoryWorkload, Service},
    resource::{self, VirtualEnvironment},
    suggestions,
};
use mesh::{InputProblem, Problems, pod::Located};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Manifests {
    pub(super) environments: Vec<VirtualEnvironment>,
    pub(super) services: Vec<Service>,
    pub(super) workloads: Vec<InventoryWorkload>,
    /// What is of a kind that we make, each with its namespace.
    pub(super) existing: Vec<(String, Existing)>,
    pub(super) warnings: Vec<String>,
    /// The file and line of each object, by its title.
    places: BTreeMap<String, String>,
}

impl Manifests {
    /// Reads files; `-` is standard input. `namespace` is that of what names none. With it comes what is wrong: files that
    /// can't be read, objects without a name. What can be read may have further problems.
    pub(super) fn read(files: &[String], namespace: &str) -> (Self, Vec<InputProblem>) {
        let mut problems = Vec::new();
        let mut manifests = Self::default();
        for (at, file) in files.iter().enumerate() {
            if files[..at].contains(file) {
                manifests.warnings.push(format!("{file}: is named twice; it is read once"));
                continue;
            }
            match read(file) {
                Err(error) => {
                    let text = format!("can't be read: {error}; expected a manifest as YAML or JSON");
                    problems.push(InputProblem::of(file, text));
                }
                Ok(text) => match mesh::pod::located(file, &text) {
                    Err(found) => problems.extend(found.0),
                    Ok(objects) => {
                        let taken = objects.into_iter().map(|object| manifests.take(file, object, namespace));
                        problems.extend(taken.filter_map(Result::err));
                    }
                },
            }
        }
        if problems.is_empty() && manifests.environments.is_empty() {
            let text = format!(
                "no VirtualEnvironment of {}/{} is there; expected one, which names the label and the header",
                resource::GROUP,
                resource::VERSION
            );
            problems.push(InputProblem::of(&files.join(", "), text));
        }
        (manifests, problems)
    }

    fn take(&mut self, file: &str, object: Located, namespace: &str) -> Result<(), InputProblem> {
        let Located { line, value } = object;
        let place = line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"));
        let group = format!("{}/", resource::GROUP);
        let is_ours = value["apiVersion"].as_str().is_some_and(|version| version.starts_with(&group));
        if is_ours && value["kind"] == resource::KIND {
            let one = VirtualEnvironment::read(&value, namespace);
            if self.record(&one.title(), &one.name, &place)? {
                self.environments.retain(|there| there.title() != one.title());
            }
            self.environments.push(one);
        } else if let Some(one) = Service::read(&value, namespace) {
            if self.record(&one.title(), &one.name, &place)? {
                self.services.retain(|there| there.title() != one.title());
            }
            self.services.push(one);
        } else if let Some(one) = InventoryWorkload::read(&value, namespace) {
            if self.record(&one.title(), &one.name, &place)? {
                self.workloads.retain(|there| there.title() != one.title());
            }
            self.workloads.push(one);
        } else if let Some(passed_over) = suggestions::passed_over(&value) {
            self.warnings.push(format!("{place}: {passed_over}"));
        } else if !is_printed(&value) {
            let at = resource::namespace_of(&value, namespace).to_owned();
            self.existing.extend(Existing::of(value).map(|there| (at, there)));
        }
        Ok(())
    }

    /// Records the place of an object. Returns whether it was given before.
    fn record(&mut self, title: &str, name: &str, place: &str) -> Result<bool, InputProblem> {
        if name.is_empty() {
            let text = "is missing; expected the object's name";
            return Err(InputProblem::of(&format!("{place}: {title}, metadata.name"), text));
        }
        let before = self.places.insert(title.to_owned(), place.to_owned());
        if let Some(before) = &before {
            self.warnings
                .push(format!("{place}: {title}: it is given at {before}, too; the last one counts"));
        }
        Ok(before.is_some())
    }

    /// A message about an object, with its file and line before it.
    pub(super) fn at(&self, text: &str) -> String {
        // Names of objects hold neither.
        let title = text.split([',', ':']).next().unwrap_or_default();
        match self.places.get(title) {
            Some(place) => format!("{place}: {text}"),
            None => text.to_owned(),
        }
    }

    /// The same of problems.
    pub(super) fn located(&self, problems: Vec<InputProblem>) -> Problems {
        let named = |problem: InputProblem| InputProblem { name: self.at(&problem.name), ..problem };
        Problems(Problems::first(problems.into_iter().map(named)))
    }
}

/// Whether it is ours from an earlier call, or from a cluster: then it is printed again.
fn is_printed(object: &Value) -> bool {
    let label = object.pointer("/metadata/labels/app.kubernetes.io~1managed-by");
    label.is_some_and(|label| label == "sidecar-injector")
}
