//! `environment routes`: the routes of manifests, without a cluster.

use super::Format;
use crate::output::{document, print};
use clap::Args;
use injection::environment::{
    changes::{Existing, Step, changes},
    routes::{Fate, ISTIO, Plan, plan},
    spec::{self, VirtualEnvironment},
    standing::acting,
    table::table,
    world::{Service, Workload},
};
use policy::{Problem, Problems};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    io::{self, Read},
    process::ExitCode,
};

/// As wide as terminals are at least.
const WIDTH: usize = 80;

/// Its flags.
#[derive(Args)]
pub(crate) struct Flags {
    /// Manifests with VirtualEnvironments, Services, Deployments and StatefulSets; - is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<String>,
    /// The namespace of what names none
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// How the objects are written
    #[arg(long, value_enum, default_value_t = Format::Yaml, conflicts_with = "table")]
    format: Format,
    /// Print where requests go instead: environment by environment, Service by Service
    #[arg(long)]
    table: bool,
}

/// What the manifests hold.
#[derive(Default)]
struct Manifests {
    environments: Vec<VirtualEnvironment>,
    services: Vec<Service>,
    workloads: Vec<Workload>,
    existing: Vec<(String, Existing)>,
}

/// A namespace's environment, and what becomes of it.
struct Routed<'a> {
    environment: &'a VirtualEnvironment,
    header: &'a str,
    plan: Plan,
}

pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Box<dyn Error>> {
    let manifests = read(flags)?;
    let mut warnings = Vec::new();
    let routed = manifests.routed(&mut warnings)?;
    if flags.table {
        let several = routed.len() > 1;
        let part = |routed: &Routed<'_>| {
            let title = if several { format!("{}:\n", routed.environment.title()) } else { String::new() };
            title + &table(&routed.plan, routed.header, WIDTH)
        };
        let parts: Vec<String> = routed.iter().map(part).collect();
        tell(&warnings);
        print(&parts.join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let objects: Vec<Value> =
        routed.iter().flat_map(|routed| manifests.objects(routed, &mut warnings)).collect();
    tell(&warnings);
    print(&match flags.format {
        Format::Yaml => objects.iter().map(document).collect::<Vec<_>>().join("---\n"),
        Format::Json => format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": objects})),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn tell(warnings: &[String]) {
    for warning in warnings {
        anstream::eprintln!("warning: {warning}");
    }
}

fn read(flags: &Flags) -> Result<Manifests, Problems> {
    let mut problems = Vec::new();
    let mut manifests = Manifests::default();
    for file in &flags.files {
        let text = match &**file {
            "-" => io::read_to_string(io::stdin().lock().by_ref()),
            path => fs::read_to_string(path),
        };
        match text {
            Err(error) => problems.push(Problem::of(file, format!("can't be read: {error}"))),
            Ok(text) => match policy::pod::values(file, &text) {
                Err(found) => problems.extend(found.0),
                Ok(documents) => documents.into_iter().for_each(|one| manifests.take(one, &flags.namespace)),
            },
        }
    }
    if problems.is_empty() && manifests.environments.is_empty() {
        let text = format!(
            "hold no VirtualEnvironment of {}/{}; expected one, which names the label and the header",
            spec::GROUP,
            spec::VERSION
        );
        problems.push(Problem::of(&flags.files.join(", "), text));
    }
    if problems.is_empty() { Ok(manifests) } else { Err(Problems(problems)) }
}

impl Manifests {
    fn take(&mut self, mut object: Value, namespace: &str) {
        let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        if let (true, Some(Value::Array(items))) = (is_list, object.get_mut("items").map(Value::take)) {
            items.into_iter().for_each(|item| self.take(item, namespace));
            return;
        }
        let group = format!("{}/", spec::GROUP);
        let is_ours = object["apiVersion"].as_str().is_some_and(|version| version.starts_with(&group));
        if is_ours && object["kind"] == spec::KIND {
            self.environments.push(VirtualEnvironment::read(&object, namespace));
        } else if let Some(service) = Service::read(&object, namespace) {
            self.services.push(service);
        } else if let Some(workload) = Workload::read(&object, namespace) {
            self.workloads.push(workload);
        } else if !is_printed(&object) {
            let place =
                object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or(namespace).to_owned();
            self.existing.extend(Existing::of(object).map(|there| (place, there)));
        }
    }

    /// The plan of each namespace with a VirtualEnvironment; or everything that is wrong.
    fn routed<'a>(&'a self, warnings: &mut Vec<String>) -> Result<Vec<Routed<'a>>, Problems> {
        let mut by_namespace: BTreeMap<&str, Vec<&VirtualEnvironment>> = BTreeMap::new();
        for environment in &self.environments {
            by_namespace.entry(&environment.namespace).or_default().push(environment);
        }
        let mut problems = Vec::new();
        let mut routed = Vec::new();
        for all in by_namespace.into_values() {
            let Some(environment) = acting(all.iter().copied()) else { continue };
            for other in all.iter().filter(|other| **other != environment) {
                warnings.push(format!("{}: a namespace has one; {} acts", other.title(), environment.name));
            }
            // What does not act is checked all the same.
            problems.extend(
                all.iter().filter_map(|one| one.spec.as_ref().err()).flat_map(|found| found.0.clone()),
            );
            let Ok(spec) = &environment.spec else { continue };
            let Ok(plan) = plan(environment, &self.services, &self.workloads, ISTIO) else { continue };
            for service in &plan.services {
                match &service.fate {
                    Fate::Refused(found) => problems.extend(found.0.clone()),
                    Fate::Routed { .. } | Fate::Unrouted(_) => {}
                }
            }
            warnings.extend(plan.warnings.clone());
            routed.push(Routed { environment, header: &spec.header, plan });
        }
        if problems.is_empty() { Ok(routed) } else { Err(Problems(problems)) }
    }

    /// What a namespace is to have, beside what is the user's own.
    fn objects(&self, routed: &Routed<'_>, warnings: &mut Vec<String>) -> Vec<Value> {
        let here = self.existing.iter().filter(|(namespace, _)| *namespace == routed.environment.namespace);
        let existing: Vec<Existing> = here.map(|(_, there)| there.clone()).collect();
        let changes = changes(routed.environment, &routed.plan, &existing);
        warnings.extend(changes.foreign);
        let applied = changes.steps.into_iter().filter_map(|step| match step {
            Step::Create(object) | Step::Apply { object, .. } => Some(object),
            Step::Adopt { .. } | Step::Delete { .. } => None,
        });
        applied.collect()
    }
}

/// Whether it is ours from an earlier call, or from a cluster: then it is printed anew.
fn is_printed(object: &Value) -> bool {
    let label = object.pointer("/metadata/labels/app.kubernetes.io~1managed-by");
    label.is_some_and(|label| label == "sidecar-injector")
}
