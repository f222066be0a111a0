//! The routes of a namespace: a pure function of a VirtualEnvironment, the Services and the workloads behind them.
//!
//! A request goes to the pods of a Service that have its environment, else to those of the nearest environment that it is
//! derived from (`dev.red.x`, `dev.red`, `dev`), else to the default. What comes out depends on nothing but what goes in:
//! environments and ports are sorted.
//!
//! A request of an environment that no workload of the namespace has at all goes to the default, though one that it is
//! derived from may have pods: a route can only be made for a value that is known.

mod choice;
mod objects;

pub use choice::{Choices, subset};

use super::hosts::{AllowedHost, may_route};
use super::inventory::{HOSTS, InventoryWorkload, Service};
use super::resource::{EnvironmentSpec, VirtualEnvironment};
use super::suggestions;
use super::syntax;
use super::{existing, filter};
use mesh::{InputProblem, Problems};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The default version of Istio's objects: all since Istio 1.5 have it.
pub const ISTIO: &str = "v1beta1";

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// All environments that workloads have.
    pub environments: BTreeSet<String>,
    /// Sorted by name.
    pub services: Vec<Planned>,
    /// The EnvoyFilter that makes sidecars add the header, if it is enabled.
    pub filter: Option<Value>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub name: String,
    pub disposition: RouteDisposition,
    /// Where requests go; `None` where no workload of the Service has an environment, or nothing of it is HTTP.
    pub choices: Option<Choices>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RouteDisposition {
    Routed {
        virtual_service: Value,
        destination_rule: Value,
    },
    /// It needs no routes.
    Unrouted(UnroutedReason),
    /// What it says is wrong. What there is of its routes stays as it is.
    Refused(Problems),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnroutedReason {
    ApiServer,
    NoSelector,
    NoWorkload,
    /// None of its workloads has an environment.
    NoEnvironment,
    NoHttpPort,
    OneWay,
}

impl fmt::Display for UnroutedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiServer => "it is the API server's",
            Self::NoSelector => "it selects no pods",
            Self::NoWorkload => "it selects none of the namespace's workloads",
            Self::NoEnvironment => "none of its workloads with pods has an environment",
            Self::NoHttpPort => {
                "none of its ports is HTTP; expected a name such as http or http-web, or appProtocol: http"
            }
            Self::OneWay => "all requests go the same way",
        })
    }
}

impl UnroutedReason {
    /// Whether its author probably expected routes. In a manifest that was written for it that is worth a word, in a namespace
    /// with all that there is in a cluster it is not.
    pub fn is_suspicious(self) -> bool {
        match self {
            Self::ApiServer | Self::OneWay => false,
            Self::NoSelector | Self::NoWorkload | Self::NoEnvironment | Self::NoHttpPort => true,
        }
    }
}

/// The routes of a VirtualEnvironment's namespace. Objects of other namespaces are left out. `hosts` are allowed
/// outside of a Service's namespace, too; `version` is that of Istio's objects.
///
/// # Errors
/// What is wrong with the VirtualEnvironment.
pub fn plan(
    environment: &VirtualEnvironment,
    services: &[Service],
    workloads: &[InventoryWorkload],
    hosts: &[AllowedHost],
    version: &str,
) -> Result<Plan, Problems> {
    let spec = environment.spec.as_ref().map_err(Clone::clone)?;
    let mut warnings = spec_warnings(spec);
    let all = workloads;
    let workloads = &tagged(environment, spec, all, &mut warnings);
    let environments: BTreeSet<String> = workloads.iter().map(|(value, _)| (*value).to_owned()).collect();
    let mut here: Vec<&Service> =
        services.iter().filter(|service| service.namespace == environment.namespace).collect();
    here.sort_by(|a, b| a.name.cmp(&b.name));
    here.iter().for_each(|service| warnings.extend(service.warnings.clone()));
    let context =
        PlanContext { environment, spec, environments: &environments, all, workloads, hosts, version };
    let services = here.into_iter().map(|service| context.planned(service, &mut warnings)).collect();
    let filter = spec.auto_inject.then(|| filter::envoy_filter(environment, spec));
    Ok(Plan { environments, services, filter, warnings })
}

/// Workloads with their environments.
fn tagged<'a>(
    environment: &VirtualEnvironment,
    spec: &EnvironmentSpec,
    workloads: &'a [InventoryWorkload],
    warnings: &mut Vec<String>,
) -> Vec<(&'a str, &'a InventoryWorkload)> {
    let mut found = Vec::new();
    for workload in workloads.iter().filter(|workload| workload.namespace == environment.namespace) {
        let (title, label) = (workload.title(), &spec.label);
        match workload.labels.get(label).map(String::as_str) {
            None => {
                let like = suggestions::label(&workload.labels, label);
                warnings.extend(like.map(|like| {
                    format!("{title}: it has no label {label}, so nothing is routed to it, but {like}; did you mean {label}?")
                }));
            }
            Some("") => {
                warnings.push(format!("{title}: its label {label} is empty; nothing is routed to it"));
            }
            Some(value) if !syntax::is_label_value(value) => {
                warnings
                    .push(format!("{title}: its label {label} says {value:?}, which is not a label value"));
            }
            Some(value) if workload.replicas == 0 => {
                warnings.push(format!(
                    "{title}: it is to have no pods; nothing is routed to {value} because of it"
                ));
                // Requests of its environment still find what is nearest to it elsewhere.
                found.push((value, workload));
            }
            Some(value) => found.push((value, workload)),
        }
    }
    warnings.sort();
    found
}

/// Warnings about a VirtualEnvironment.
fn spec_warnings(spec: &EnvironmentSpec) -> Vec<String> {
    let splitter = spec.splitter;
    let is_possible = splitter.is_ascii_alphanumeric() || "-_.".contains(splitter);
    let notes = (!is_possible).then(|| {
        format!("spec.envLabel.splitter: no label can hold {splitter:?}, so no environment is derived from another; expected . or - or _")
    });
    notes.into_iter().collect()
}

struct PlanContext<'a> {
    environment: &'a VirtualEnvironment,
    spec: &'a EnvironmentSpec,
    environments: &'a BTreeSet<String>,
    /// In whatever namespace, with and without environments.
    all: &'a [InventoryWorkload],
    /// Those with environments.
    workloads: &'a [(&'a str, &'a InventoryWorkload)],
    hosts: &'a [AllowedHost],
    version: &'a str,
}

impl PlanContext<'_> {
    fn planned(&self, service: &Service, warnings: &mut Vec<String>) -> Planned {
        let unrouted = |reason| Planned {
            name: service.name.clone(),
            disposition: RouteDisposition::Unrouted(reason),
            choices: None,
        };
        if service.name == "kubernetes" {
            return unrouted(UnroutedReason::ApiServer);
        }
        if service.selector.is_empty() {
            return unrouted(UnroutedReason::NoSelector);
        }
        let has_pods = |workload: &InventoryWorkload| workload.replicas > 0;
        let own =
            self.workloads.iter().filter(|(_, workload)| has_pods(workload) && service.selects(workload));
        let own: BTreeSet<&str> = own.map(|(value, _)| *value).collect();
        if own.is_empty() {
            let is_own =
                |one: &InventoryWorkload| one.namespace == self.environment.namespace && service.selects(one);
            let has_workloads = self.all.iter().any(is_own);
            return unrouted(if has_workloads {
                UnroutedReason::NoEnvironment
            } else {
                UnroutedReason::NoWorkload
            });
        }
        let mut ports: Vec<u16> =
            service.ports.iter().filter(|port| port.is_http).map(|port| port.number).collect();
        ports.sort_unstable();
        ports.dedup();
        if ports.is_empty() {
            if !service.gateways.is_empty() {
                warnings.push(format!(
                    "{}: it names gateways, but {}",
                    service.title(),
                    UnroutedReason::NoHttpPort
                ));
            }
            return unrouted(UnroutedReason::NoHttpPort);
        }
        let problems: Vec<InputProblem> =
            service.problems().iter().cloned().chain(doubles(service, &own, &self.spec.label)).collect();
        if !problems.is_empty() {
            let disposition = RouteDisposition::Refused(Problems(problems));
            return Planned { name: service.name.clone(), disposition, choices: None };
        }
        let choices = Choices::of(self.spec, self.environments, &own);
        let routes = objects::routes(self.spec, service, &choices, &ports);
        let disposition = if routes.len() < 2 && service.gateways.is_empty() {
            RouteDisposition::Unrouted(UnroutedReason::OneWay)
        } else {
            self.warn_of_default(service, &own, warnings);
            let service = &self.with_allowed_hosts(service, warnings);
            let metadata = existing::metadata(self.environment, &service.name);
            RouteDisposition::Routed {
                virtual_service: objects::virtual_service(self.version, &metadata, service, &routes),
                destination_rule: objects::destination_rule(
                    self.version,
                    &metadata,
                    self.spec,
                    service,
                    &own,
                ),
            }
        };
        Planned { name: service.name.clone(), disposition, choices: Some(choices) }
    }

    /// The Service with the hosts that it may route.
    fn with_allowed_hosts(&self, service: &Service, warnings: &mut Vec<String>) -> Service {
        let mut routed = service.clone();
        for host in routed.hosts.extract_if(.., |host| !may_route(service, host, self.hosts)) {
            warnings.push(format!(
                "{}, annotation {HOSTS}: {host} is outside of its namespace and is left out; allow it with --allow-hosts of the \
                 operator, if all calls of this host may go to the Service",
                service.title()
            ));
        }
        routed
    }

    fn warn_of_default(&self, service: &Service, own: &BTreeSet<&str>, warnings: &mut Vec<String>) {
        if let Some(default) = self.spec.default_subset.as_deref().filter(|default| !own.contains(default)) {
            warnings.push(format!(
                "{}: none of its workloads has the default environment {default}; requests without an environment go to \
                 all its pods",
                service.title()
            ));
        }
    }
}

/// Environments that would have one subset.
fn doubles(service: &Service, own: &BTreeSet<&str>, label: &str) -> Vec<InputProblem> {
    let mut by_subset: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for value in own {
        by_subset.entry(subset(value)).or_default().push(value);
    }
    let doubles = by_subset.into_iter().filter(|(_, values)| values.len() > 1);
    doubles
        .map(|(name, values)| {
            let place = format!("{}, label {label} of its workloads", service.title());
            let values = values.join(" and ");
            InputProblem::of(&place, format!("{values} would both be the subset {name}; rename one of them"))
        })
        .collect()
}
