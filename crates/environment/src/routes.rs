//! The routes of a namespace: a pure, deterministic function of a VirtualEnvironment, Services and workloads. A request goes to
//! the Service's pods in the request's environment, else in the nearest environment that it derives from (`dev.red.x`, `dev.red`,
//! `dev`), else to the default. If no workload in the namespace has an environment, its requests go to the default: a route can
//! only match a known value.

use crate::existing::{self, DESTINATION_RULE, ENVOY_FILTER, VIRTUAL_SERVICE};
use crate::inventory::{AllowedHost, HOSTS, InventoryWorkload, Service, may_route};
use crate::resource::{EnvironmentSpec, VirtualEnvironment};
use crate::suggestions;
use injection::{syntax, tag::VARIABLE};
use mesh::{InputProblem, Problems, visible};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Version of Istio's objects, available since Istio 1.5.
pub const ISTIO: &str = "v1beta1";

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub environments: BTreeSet<String>,
    pub services: Vec<Planned>,
    pub filter: Option<Value>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub name: String,
    pub disposition: RouteDisposition,
    /// `None` if no workload of the Service has an environment, no port is HTTP, or the Service is refused.
    pub choices: Option<Choices>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RouteDisposition {
    Routed {
        virtual_service: Value,
        destination_rule: Value,
    },
    Unrouted(UnroutedReason),
    /// Problems of the Service; its existing routes stay.
    Refused(Problems),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnroutedReason {
    ApiServer,
    NoSelector,
    NoWorkload,
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
    /// True if the author probably expected routes; causes a warning for manifests, not for clusters.
    pub fn is_suspicious(self) -> bool {
        !matches!(self, Self::ApiServer | Self::OneWay)
    }
}

/// Plans a VirtualEnvironment's namespace, ignoring other namespaces' objects. Any Service may route `hosts`. Errors: the
/// VirtualEnvironment's problems.
pub fn plan(
    environment: &VirtualEnvironment,
    services: &[&Service],
    workloads: &[&InventoryWorkload],
    hosts: &[AllowedHost],
) -> Result<Plan, Problems> {
    let spec = environment.spec.as_ref().map_err(Clone::clone)?;
    let mut warnings = Vec::from_iter(splitter_warning(spec.splitter));
    let all = workloads;
    let workloads = &tagged(environment, spec, all, &mut warnings);
    let environments: BTreeSet<String> = workloads.iter().map(|(value, _)| (*value).to_owned()).collect();
    let here = services.iter().filter(|service| service.namespace == environment.namespace);
    let mut here: Vec<&Service> = here.copied().collect();
    here.sort_by(|a, b| a.name.cmp(&b.name));
    here.iter().for_each(|service| warnings.extend(service.warnings.clone()));
    let context = PlanContext { environment, spec, environments: &environments, all, workloads, hosts };
    let planned = here.into_iter().map(|service| {
        let (disposition, choices) = context.routed(service, &mut warnings);
        Planned { name: service.name.clone(), disposition, choices }
    });
    let services = planned.collect();
    let filter = spec.auto_inject.then(|| envoy_filter(environment, spec));
    Ok(Plan { environments, services, filter, warnings })
}

fn tagged<'a>(
    environment: &VirtualEnvironment,
    spec: &EnvironmentSpec,
    workloads: &[&'a InventoryWorkload],
    warnings: &mut Vec<String>,
) -> Vec<(&'a str, &'a InventoryWorkload)> {
    let mut found = Vec::new();
    for workload in workloads.iter().copied().filter(|one| one.namespace == environment.namespace) {
        let (title, label) = (workload.title(), &spec.label);
        match workload.labels.get(label).map(String::as_str) {
            None => {
                let like = suggestions::label(&workload.labels, label);
                warnings.extend(like.map(|like| {
                    format!(
                        "{title}: no routes lead to it: it has no label {label}, but {like}; did you mean {label}?"
                    )
                }));
            }
            Some("") => {
                warnings.push(format!("{title}: no routes lead to it: its label {label} is empty"));
            }
            Some(value) if !syntax::is_label_value(value) => {
                warnings.push(format!("{title}: its label {label} is {value:?}, which is not a label value"));
            }
            Some(value) if workload.replicas == 0 => {
                warnings.push(format!("{title}: it has 0 replicas, so it gets no routes for {value}"));
                // Other Services still route its environment's requests to the nearest one.
                found.push((value, workload));
            }
            Some(value) => found.push((value, workload)),
        }
    }
    warnings.sort();
    found
}

fn splitter_warning(splitter: char) -> Option<String> {
    let is_possible = splitter.is_ascii_alphanumeric() || "-_.".contains(splitter);
    (!is_possible).then(|| {
        format!("spec.envLabel.splitter: no label can hold {splitter:?}, so no environment is derived from another; expected . or - or _")
    })
}

struct PlanContext<'a> {
    environment: &'a VirtualEnvironment,
    spec: &'a EnvironmentSpec,
    environments: &'a BTreeSet<String>,
    /// Workloads of all namespaces, with or without environments.
    all: &'a [&'a InventoryWorkload],
    workloads: &'a [(&'a str, &'a InventoryWorkload)],
    hosts: &'a [AllowedHost],
}

impl PlanContext<'_> {
    fn routed(&self, service: &Service, warnings: &mut Vec<String>) -> (RouteDisposition, Option<Choices>) {
        let unrouted = |reason| (RouteDisposition::Unrouted(reason), None);
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
            let mut here = self.all.iter().filter(|one| one.namespace == self.environment.namespace);
            let has_workloads = here.any(|one| service.selects(one));
            let (tagless, none) = (UnroutedReason::NoEnvironment, UnroutedReason::NoWorkload);
            return unrouted(if has_workloads { tagless } else { none });
        }
        if service.http_ports.is_empty() {
            if !service.gateways.is_empty() {
                let reason = UnroutedReason::NoHttpPort;
                warnings.push(format!("{}: it names gateways, but {reason}", service.title()));
            }
            return unrouted(UnroutedReason::NoHttpPort);
        }
        let problems: Vec<InputProblem> =
            service.problems().iter().cloned().chain(doubles(service, &own, &self.spec.label)).collect();
        if let Err(problems) = Problems::check(problems) {
            return (RouteDisposition::Refused(problems), None);
        }
        let choices = Choices::of(self.spec, self.environments, &own);
        let routes = routes(self.spec, service, &choices);
        if routes.len() < 2 && service.gateways.is_empty() {
            return (RouteDisposition::Unrouted(UnroutedReason::OneWay), Some(choices));
        }
        self.warn_of_default(service, &own, warnings);
        let (hosts, refused): (Vec<&str>, Vec<&str>) =
            service.hosts.iter().map(String::as_str).partition(|host| may_route(service, host, self.hosts));
        warnings.extend(refused.iter().map(|host| {
            format!(
                "{}, annotation {HOSTS}: {host} is outside the Service's namespace and gets no route; allow it with \
                 the operator's --allow-hosts if all calls to this host may go to the Service",
                service.title()
            )
        }));
        let metadata = existing::metadata(self.environment, &service.name);
        let disposition = RouteDisposition::Routed {
            virtual_service: virtual_service(&metadata, service, hosts, &routes),
            destination_rule: destination_rule(&metadata, self.spec, service, &own),
        };
        (disposition, Some(choices))
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Subset for requests without an environment, or with one that has no pods here; `None` selects all pods.
    pub default: Option<String>,
    /// Subset of each environment in the namespace whose requests do not go to the default.
    pub others: BTreeMap<String, String>,
}

impl Choices {
    fn of(spec: &EnvironmentSpec, all: &BTreeSet<String>, own: &BTreeSet<&str>) -> Self {
        // A subset without pods would yield 503.
        let default = spec.default_subset.as_deref().filter(|default| own.contains(default)).map(subset);
        let target = |value: &String| Some((value.clone(), subset(target(value, spec.splitter, own)?)));
        let others = all.iter().filter_map(target).filter(|(_, subset)| Some(subset) != default.as_ref());
        Self { others: others.collect(), default }
    }

    /// The subset for requests of an environment; `None` selects all pods.
    pub fn subset(&self, environment: Option<&str>) -> Option<&str> {
        environment.and_then(|value| self.others.get(value)).or(self.default.as_ref()).map(String::as_str)
    }
}

/// Name of an environment's subset: Istio allows letters, digits and `-`.
pub fn subset(environment: &str) -> String {
    environment.replace(['_', '.'], "-")
}

/// The environment itself, or the nearest one in `among` that it derives from.
fn target<'a>(value: &'a str, splitter: char, among: &BTreeSet<&str>) -> Option<&'a str> {
    let mut left = value;
    loop {
        if among.contains(left) {
            return Some(left);
        }
        left = left.rsplit_once(splitter)?.0;
    }
}

/// A Service's routes, port by port: header, aliases in the spec's order, default.
fn routes(spec: &EnvironmentSpec, service: &Service, choices: &Choices) -> Vec<Value> {
    let rule = service.rule.clone().unwrap_or_default();
    let mut found = Vec::new();
    for port in service.http_ports.iter().collect::<BTreeSet<_>>() {
        let mut add = |condition: Value, subset: Option<&str>| {
            let mut matching = condition;
            matching["port"] = json!(port);
            let mut destination = json!({"host": service.name, "port": {"number": port}});
            if let Some(subset) = subset {
                destination["subset"] = json!(subset);
            }
            found.push(rule.with(&matching, &json!({"destination": destination, "weight": 100})));
        };
        for (environment, subset) in &choices.others {
            add(json!({"headers": {&spec.header: {"exact": environment}}}), Some(subset));
        }
        for (at, alias) in spec.aliases.iter().enumerate() {
            let without = without(spec, at);
            for (environment, subset) in &choices.others {
                let condition = match &alias.pattern {
                    Some(pattern) => json!({"regex": pattern.of(environment)}),
                    None => json!({"exact": environment}),
                };
                let mut matching = json!({"headers": {&alias.header: condition}});
                if !without.is_empty() {
                    matching["withoutHeaders"] = json!(without);
                }
                add(matching, Some(subset));
            }
        }
        add(json!({}), choices.default.as_deref());
    }
    found
}

/// Headers that must be absent for the alias at this index to match: earlier ones without a pattern, whose value is the
/// environment, even the default, which has no header route. A header with a pattern may hold other values.
fn without(spec: &EnvironmentSpec, at: usize) -> Map<String, Value> {
    let before = spec.aliases[..at].iter().filter(|alias| alias.pattern.is_none());
    let before = [&spec.header].into_iter().chain(before.map(|alias| &alias.header));
    let others = before.filter(|header| !header.eq_ignore_ascii_case(&spec.aliases[at].header));
    // An empty condition matches presence (Istio, `HTTPMatchRequest.headers`).
    others.map(|header| (header.clone(), json!({}))).collect()
}

fn virtual_service(metadata: &Value, service: &Service, hosts: Vec<&str>, http: &[Value]) -> Value {
    let hosts: Vec<&str> = [&*service.name].into_iter().chain(hosts).collect();
    let gateways: Vec<&str> =
        ["mesh"].into_iter().chain(service.gateways.iter().map(String::as_str)).collect();
    json!({
        "apiVersion": format!("networking.istio.io/{ISTIO}"), "kind": VIRTUAL_SERVICE, "metadata": metadata,
        "spec": {"hosts": hosts, "gateways": gateways, "http": http},
    })
}

fn destination_rule(
    metadata: &Value,
    spec: &EnvironmentSpec,
    service: &Service,
    own: &BTreeSet<&str>,
) -> Value {
    let of = |value: &&str| json!({"name": subset(value), "labels": {&spec.label: value}});
    let subsets: Vec<Value> = own.iter().map(of).collect();
    json!({
        "apiVersion": format!("networking.istio.io/{ISTIO}"), "kind": DESTINATION_RULE, "metadata": metadata,
        "spec": {"host": service.name, "subsets": subsets},
    })
}

/// Request header that makes the sidecar log its actions; the value `DEBUG` adds all headers.
pub const DIAGNOSE: &str = "KT-ENV-DIAGNOSE";

/// The only version of an EnvoyFilter.
const FILTER_VERSION: &str = "networking.istio.io/v1alpha3";

/// EnvoyFilter at the start of the chain, so that later filters, above all the router, see the header.
pub(crate) fn envoy_filter(environment: &VirtualEnvironment, spec: &EnvironmentSpec) -> Value {
    let mut metadata = existing::metadata(environment, &environment.name);
    // Upstream's labels. A value that a label can't hold is written as empty, to replace any older value.
    for (key, value) in [("envLabel", &spec.label), ("envHeader", &spec.header)] {
        metadata["labels"][key] = json!(if syntax::is_label_value(value) { value } else { "" });
    }
    json!({
        "apiVersion": FILTER_VERSION, "kind": ENVOY_FILTER, "metadata": metadata,
        "spec": {"configPatches": [{
            "applyTo": "HTTP_FILTER",
            "match": {
                "context": "SIDECAR_OUTBOUND",
                "listener": {"filterChain": {"filter": {"name": "envoy.filters.network.http_connection_manager"}}},
            },
            "patch": {"operation": "INSERT_FIRST", "value": {
                "name": "virtual.environment.lua",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
                    "default_source_code": {"inline_string": script(&spec.header)},
                },
            }},
        }]},
    })
}

/// Lua script that the sidecar runs for each request. It logs warnings: proxies print no lower level.
pub fn script(header: &str) -> String {
    format!(
        r#"local header = "{header}"
local tag = os.getenv("{VARIABLE}")
if tag == "" then
  tag = nil
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local carried = headers:get(header)
  local diagnose = headers:get("{DIAGNOSE}")
  if carried == nil and tag ~= nil then
    headers:add(header, tag)
  end
  if diagnose == nil then
    return
  end
  if carried ~= nil then
    handle:logWarn("virtual environment: the request carries " .. header .. ": " .. carried)
  elseif tag ~= nil then
    handle:logWarn("virtual environment: the request gets " .. header .. ": " .. tag)
  else
    handle:logWarn("virtual environment: no " .. header .. ", and the pod has no tag")
  end
  if diagnose == "DEBUG" then
    for name, value in pairs(headers) do
      handle:logWarn("virtual environment: " .. name .. ": " .. value)
    end
  end
end
"#
    )
}

const GAP: usize = 2;
const ANY: &str = "any";

/// The destinations of requests: a row for each environment, a column for each Service. A table wider than `width` characters is
/// split and stacked; `header` is the title of the first column.
pub fn table(plan: &Plan, header: &str, width: usize) -> String {
    let known = plan.environments.iter().map(|value| (value.as_str(), Some(value.as_str())));
    let rows: Vec<_> = [("(none)", None)].into_iter().chain(known).chain([("(another)", None)]).collect();
    let titles = rows.iter().map(|(title, _)| *title);
    let first: Vec<String> = [header].into_iter().chain(titles).map(visible).collect();
    let columns = plan.services.iter().filter_map(|service| {
        let choices = service.choices.as_ref()?;
        let cells = rows.iter().map(|(_, value)| choices.subset(*value).unwrap_or(ANY));
        Some([&*service.name].into_iter().chain(cells).map(visible).collect())
    });
    let columns: Vec<Vec<String>> = columns.collect();
    let widest = |cells: &[String]| cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let margin = widest(&first);
    let mut parts: Vec<Vec<&[String]>> = Vec::new();
    let mut used = 0;
    for cells in &columns {
        let more = GAP + widest(cells);
        match parts.last_mut() {
            Some(part) if used + more <= width => {
                part.push(cells);
                used += more;
            }
            _ => {
                parts.push(vec![cells]);
                used = margin + more;
            }
        }
    }
    let part = |columns: &Vec<&[String]>| -> String {
        let line = |(at, title): (usize, &String)| {
            let mut line = format!("{title:margin$}");
            for cells in columns {
                line += &format!("{:GAP$}{:width$}", "", cells[at], width = widest(cells));
            }
            format!("{}\n", line.trim_end())
        };
        first.iter().enumerate().map(line).collect()
    };
    parts.iter().map(part).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_to_the_nearest_ancestor() {
        let among = BTreeSet::from(["base", "base.red", "x-y"]);
        for (value, splitter, expected) in [
            ("base", '.', Some("base")),
            ("base.red", '.', Some("base.red")),
            ("base.red.x.y", '.', Some("base.red")),
            ("base.blue", '.', Some("base")),
            ("based", '.', None),
            ("other", '.', None),
            ("x-y-z", '-', Some("x-y")),
            ("x-y-z", '.', None),
        ] {
            assert_eq!(target(value, splitter, &among), expected, "{value} {splitter}");
        }
    }
}
