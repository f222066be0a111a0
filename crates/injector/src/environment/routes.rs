//! `environment routes`: routes of manifests, without a cluster.
//!
//! Manifests are read once, with each object's file and line for messages. The last of duplicate objects wins, as for `kubectl
//! apply`.

use crate::input::read;
use crate::output::{self, ObjectFormat, print, warn};
use clap::Args;
use environment::changes::{ChangeStep, changes};
use environment::inventory::{AllowedHost, InventoryWorkload, Service};
use environment::resource::{self, EnvironmentSpec, VirtualEnvironment};
use environment::routes::{Plan, Planned, RouteDisposition, UnroutedReason, plan, table};
use environment::{conditions::ranked, existing::Existing, suggestions};
use mesh::{InputProblem, Problems, pod::KubernetesObject, visible};
use serde_json::Value;
use std::{collections::BTreeMap, error::Error, process::ExitCode};

/// Typical minimum width of terminals.
const WIDTH: usize = 80;

#[derive(Args)]
pub(crate) struct RoutesFlags {
    /// Manifests with VirtualEnvironments, Services, Deployments and StatefulSets; - is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<String>,
    /// Namespace of objects without one
    #[arg(short, long, value_name = "NAME", default_value = "default", value_parser = super::namespace)]
    namespace: String,
    /// Output format
    #[arg(short, long, alias = "format", value_enum, value_name = "FORMAT", default_value_t = ObjectFormat::Yaml, conflicts_with = "table")]
    output: ObjectFormat,
    #[command(flatten)]
    hosts: super::HostFlags,
    /// Print a table of destinations by environment and Service instead
    #[arg(long)]
    table: bool,
}

struct Routed<'a> {
    environment: &'a VirtualEnvironment,
    spec: &'a EnvironmentSpec,
    plan: Plan,
}

pub(crate) fn run(flags: &RoutesFlags) -> Result<ExitCode, Box<dyn Error>> {
    let (manifests, mut problems) = Manifests::read(&flags.files, &flags.namespace);
    let is_whole = problems.is_empty();
    let mut notes = Vec::new();
    let routed = routed(&manifests, &flags.hosts.allow_hosts, &mut problems, &mut notes);
    // A missing object may be in a file that can't be read.
    notes.retain(|_| is_whole);
    // Warnings may explain problems.
    manifests.warnings.iter().chain(&notes).map(|text| visible(text)).for_each(warn);
    // The command changes nothing, so the message does not mention changes.
    let located = |problem: InputProblem| InputProblem { name: manifests.at(&problem.name), ..problem };
    Problems::check(problems.into_iter().map(located))
        .map_err(|problems| problems.headed("the manifests", "; nothing is printed"))?;
    if flags.table {
        let several = routed.len() > 1;
        let part = |routed: &Routed<'_>| {
            let title = visible(&routed.environment.title());
            let title = if several { format!("{title}:\n") } else { String::new() };
            title + &table(&routed.plan, &routed.spec.header, WIDTH)
        };
        let parts: Vec<String> = routed.iter().map(part).collect();
        print(&parts.join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut foreign = Vec::new();
    let objects: Vec<Value> =
        routed.iter().flat_map(|routed| objects(&manifests, routed, &mut foreign)).collect();
    foreign.iter().map(|text| visible(text)).for_each(warn);
    print(&output::objects(&objects, flags.output))?;
    Ok(ExitCode::SUCCESS)
}

/// Plan of each namespace with a VirtualEnvironment. Appends to problems and notes.
fn routed<'a>(
    manifests: &'a Manifests,
    hosts: &[AllowedHost],
    problems: &mut Vec<InputProblem>,
    notes: &mut Vec<String>,
) -> Vec<Routed<'a>> {
    let mut by_namespace: BTreeMap<&str, Vec<&VirtualEnvironment>> = BTreeMap::new();
    for environment in &manifests.environments {
        by_namespace.entry(&environment.namespace).or_default().push(environment);
    }
    // Problems of a Service are reported whether or not it is routed.
    problems.extend(manifests.services.iter().flat_map(|service| service.problems().iter().cloned()));
    let services: Vec<&Service> = manifests.services.iter().collect();
    let workloads: Vec<&InventoryWorkload> = manifests.workloads.iter().collect();
    let mut routed = Vec::new();
    for all in by_namespace.values() {
        // Inactive specs are checked too.
        problems
            .extend(all.iter().filter_map(|one| one.spec.as_ref().err()).flat_map(|found| found.0.clone()));
        let Some(environment) = ranked(all.iter().copied()).first().copied() else {
            notes.extend(all.iter().map(|one| {
                format!(
                    "{}: it is being deleted (metadata.deletionTimestamp), so it makes no routes",
                    one.title()
                )
            }));
            continue;
        };
        for other in all.iter().filter(|other| **other != environment) {
            notes.push(format!("{}: is inactive, because {} is active", other.title(), environment.name));
        }
        let Ok(spec) = &environment.spec else { continue };
        let Ok(plan) = plan(environment, &services, &workloads, hosts) else { continue };
        for service in &plan.services {
            if let RouteDisposition::Refused(found) = &service.disposition {
                problems.extend(found.0.clone());
            }
        }
        notes.extend(plan.warnings.clone());
        notes.extend(missing_routes(environment, spec, &plan));
        routed.push(Routed { environment, spec, plan });
    }
    notes.iter_mut().for_each(|text| *text = manifests.at(text));
    notes.extend(without_environment(manifests, &by_namespace));
    routed
}

/// Reasons why Services, or the VirtualEnvironment itself, get no routes.
fn missing_routes(environment: &VirtualEnvironment, spec: &EnvironmentSpec, plan: &Plan) -> Vec<String> {
    let namespace = &environment.namespace;
    if plan.services.is_empty() {
        return vec![format!("{}: no routes: namespace {namespace} has no Services", environment.title())];
    }
    let line = |service: &Planned| {
        let RouteDisposition::Unrouted(reason) = service.disposition else { return None };
        let expected = format!("; expected pods with the label {}", spec.label);
        let remedy = if reason == UnroutedReason::NoEnvironment { &*expected } else { "" };
        let name = &service.name;
        reason
            .is_suspicious()
            .then(|| format!("Service {namespace}/{name}: it gets no routes: {reason}{remedy}"))
    };
    plan.services.iter().filter_map(line).collect()
}

fn without_environment(
    manifests: &Manifests,
    environments: &BTreeMap<&str, Vec<&VirtualEnvironment>>,
) -> Vec<String> {
    let mut services: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for service in manifests.services.iter().filter(|service| !environments.contains_key(&*service.namespace))
    {
        services.entry(&service.namespace).or_default().push(&service.name);
    }
    let known = environments.keys().copied().collect::<Vec<_>>().join(", ");
    let lines = services.into_iter().map(|(namespace, names)| {
        format!(
            "namespace {namespace}: its Services ({}) get no routes: its VirtualEnvironment is missing; one exists in {known}",
            names.join(", ")
        )
    });
    lines.collect()
}

/// Objects that a namespace should have, except user-defined ones.
fn objects(manifests: &Manifests, routed: &Routed<'_>, warnings: &mut Vec<String>) -> Vec<Value> {
    let here = manifests.existing.iter().filter(|(namespace, _)| *namespace == routed.environment.namespace);
    let existing: Vec<&Existing> = here.map(|(_, there)| there).collect();
    let changes = changes(&[routed.environment], &routed.plan, &existing);
    warnings.extend(changes.foreign.iter().map(|text| manifests.at(text)));
    let applied = changes.steps.into_iter().filter_map(|step| match step {
        ChangeStep::Create(object) | ChangeStep::Apply { object, .. } => Some(object),
        ChangeStep::Adopt { .. } | ChangeStep::Delete(_) => None,
    });
    applied.collect()
}

#[derive(Debug, Default)]
struct Manifests {
    environments: Vec<VirtualEnvironment>,
    services: Vec<Service>,
    workloads: Vec<InventoryWorkload>,
    /// Objects of the operator's kinds, each with its namespace.
    existing: Vec<(String, Existing)>,
    warnings: Vec<String>,
    /// File and line of each object, by its title.
    places: BTreeMap<String, String>,
}

impl Manifests {
    /// Reads files; `-` is standard input. Objects without a namespace are in `namespace`. Returns unreadable files and unnamed
    /// objects as problems; readable objects may have other problems.
    fn read(files: &[String], namespace: &str) -> (Self, Vec<InputProblem>) {
        let mut problems = Vec::new();
        let mut manifests = Self::default();
        for (at, file) in files.iter().enumerate() {
            if files[..at].contains(file) {
                manifests.warnings.push(format!("{file}: is given twice, but read once"));
                continue;
            }
            match read(file, "a manifest as YAML or JSON") {
                Err(unread) => problems.push(InputProblem::of(file, unread)),
                Ok(text) => match KubernetesObject::all(file, &text) {
                    Err(found) => problems.extend(found.0),
                    Ok(objects) => {
                        let taken = objects.into_iter().map(|object| manifests.take(object, namespace));
                        problems.extend(taken.filter_map(Result::err));
                    }
                },
            }
        }
        if problems.is_empty() && manifests.environments.is_empty() {
            let text = format!(
                "has no VirtualEnvironment of {}/{}; expected one, with the label and the header",
                resource::GROUP,
                resource::VERSION
            );
            problems.push(InputProblem::of(&files.join(", "), text));
        }
        (manifests, problems)
    }

    fn take(&mut self, object: KubernetesObject, namespace: &str) -> Result<(), InputProblem> {
        let KubernetesObject { value, place, .. } = object;
        let place = place.map(|place| place.to_string()).unwrap_or_default();
        let group = format!("{}/", resource::GROUP);
        let is_ours = value["apiVersion"].as_str().is_some_and(|version| version.starts_with(&group));
        if is_ours && value["kind"] == resource::KIND {
            let one = VirtualEnvironment::read(&value, namespace);
            self.record(&one.title(), &one.name, &place)?;
            put(&mut self.environments, one, VirtualEnvironment::title);
        } else if let Some(one) = Service::read(&value, namespace) {
            self.record(&one.title(), &one.name, &place)?;
            put(&mut self.services, one, Service::title);
        } else if let Some(one) = InventoryWorkload::read(&value, namespace) {
            self.record(&one.title(), &one.name, &place)?;
            put(&mut self.workloads, one, InventoryWorkload::title);
        } else if let Some(passed_over) = suggestions::passed_over(&value) {
            self.warnings.push(format!("{place}: {passed_over}"));
        } else if !is_printed(&value) {
            let at = resource::namespace_of(&value, namespace).to_owned();
            self.existing.extend(Existing::of(value).map(|there| (at, there)));
        }
        Ok(())
    }

    fn record(&mut self, title: &str, name: &str, place: &str) -> Result<(), InputProblem> {
        if name.is_empty() {
            let text = "is missing; expected the object's name";
            return Err(InputProblem::of(&format!("{place}: {title}, metadata.name"), text));
        }
        if let Some(before) = self.places.insert(title.to_owned(), place.to_owned()) {
            self.warnings.push(format!("{place}: {title}: also given at {before}; the last one wins"));
        }
        Ok(())
    }

    fn at(&self, text: &str) -> String {
        // Object names contain neither character.
        let title = text.split([',', ':']).next().unwrap_or_default();
        match self.places.get(title) {
            Some(place) => format!("{place}: {text}"),
            None => text.to_owned(),
        }
    }
}

fn put<T>(list: &mut Vec<T>, one: T, title: impl Fn(&T) -> String) {
    list.retain(|there| title(there) != title(&one));
    list.push(one);
}

/// True for the injector's own objects, from an earlier call or a cluster: they are printed again.
fn is_printed(object: &Value) -> bool {
    let label = object.pointer("/metadata/labels/app.kubernetes.io~1managed-by");
    label.is_some_and(|label| label == "sidecar-injector")
}
