//! Resolves annotations, the pod's and mesh's ProxyConfig, and the values, in that order.

use super::annotations::{
    Annotations, LevelFaults, of_agent, of_components, of_proxy, own_settings, volumes,
};
use super::{InitMode, Mode, Sidecar, Traffic, identity::identities};
use crate::admission::{AdmissionContext, strings};
use crate::mesh_config::{IstioValues, MeshConfig, Native, ProxyReadinessProbe, proxy_config};
use crate::{pipeline::NETWORK, syntax::is_more};
use mesh::sources::{Raw, RemoteHost, boolean};
use mesh::{Problems, Setting, data::document::mapping, istio::annotations as known};
use serde_json::Value;
use std::collections::BTreeMap;

/// Request path variables for the network and the cluster.
const NETWORK_VARIABLE: &str = "ISTIO_META_NETWORK";
const CLUSTER_VARIABLE: &str = "ISTIO_META_CLUSTER_ID";

impl Sidecar {
    /// `pod` is the templates' view. Returns every problem of an annotation or a label.
    pub fn of(
        pod: &Value,
        admission: &AdmissionContext,
        values: &IstioValues,
        mesh: &MeshConfig,
    ) -> Result<Self, Problems> {
        let mut annotations = Annotations::of(pod);
        let labels: BTreeMap<&str, &str> = strings(pod, "labels").collect();
        let own = own_settings(&annotations).unwrap_or_else(|Problems(problems)| {
            annotations.problems.extend(problems);
            BTreeMap::new()
        });
        let proxy_config = config(&mut annotations, mesh.proxy_config());
        let mode = mode(&mut annotations, &own, &proxy_config);
        let init = match (mode, values.has_plugin) {
            (Mode::None, _) => InitMode::Nothing,
            (_, true) => InitMode::Validation,
            (_, false) => InitMode::Capture,
        };
        let status_port = status_port(&mut annotations, values);
        let mut traffic = Traffic::read(&mut annotations, mode, status_port, &values.proxy.capture, mesh);
        let binds_low_ports = binds_low_ports(&mut annotations).unwrap_or(values.proxy.binds_low_ports);
        let modes = (mode, init);
        let identities = identities(&mut annotations, pod, &admission.namespace, modes, binds_low_ports);
        traffic.proxy = identities.known_by;
        let log_level = level(&mut annotations, known::AGENT_LOG_LEVEL, of_agent, &values.log_level);
        let proxy_log_level = level(&mut annotations, known::LOG_LEVEL, of_proxy, &values.proxy.log_level);
        // The agent reads component levels only if `proxy_log_level` has none.
        let faults: LevelFaults = if proxy_log_level.contains(':') { |_| Vec::new() } else { of_components };
        let components = &values.proxy.component_log_level;
        let components = level(&mut annotations, known::COMPONENT_LOG_LEVEL, faults, components);
        let (proxy_image, init_image) = images(&mut annotations, &proxy_config, values);
        let resources = or(resources(&mut annotations), &values.proxy.resources);
        let native = native(&mut annotations, values, admission);
        let metadata = metadata(&proxy_config);
        let variable = |name: &str| {
            let given =
                admission.variables.iter().rev().find(|(given, value)| given == name && !value.is_empty());
            given.map(|(_, value)| value.clone())
        };
        let network = match labels.get(NETWORK) {
            Some(&"") => variable(NETWORK_VARIABLE),
            Some(text) => Some((*text).to_owned()),
            None => variable(NETWORK_VARIABLE).or_else(|| Some(values.network.clone())),
        };
        let trust = [&values.mesh_id, &mesh.trust_domain].into_iter().find(|text| !text.is_empty());
        let given = traffic.given(&annotations, &own);
        let without_flag = own.iter().filter(|(setting, _)| setting.row().long.is_empty());
        let without_flag =
            without_flag.map(|(setting, value)| (setting.row().variables[0].to_owned(), value.clone()));
        let sidecar = Self {
            mode,
            init,
            init_switches: init_switches(init, values),
            init_variables: metadata.clone().into_iter().chain(without_flag).collect(),
            own_settings: own,
            identities,
            has_plugin: values.has_plugin,
            traffic,
            hold: values.proxy.hold || proxy_config["holdApplicationUntilProxyStarts"] == true,
            proxy_config,
            proxy_metadata: metadata,
            status_port,
            readiness: readiness(&mut annotations, values),
            startup_failures: values.proxy.startup_failures.filter(|_| status_port.is_some()),
            native,
            proxy_image,
            init_image,
            init_resources: or(values.init_resources.clone(), &resources),
            resources,
            log_level,
            proxy_log_level: Some(proxy_log_level).filter(|level| !level.is_empty()),
            proxy_component_log_level: Some(components).filter(|levels| !levels.is_empty()),
            cluster: variable(CLUSTER_VARIABLE).unwrap_or_else(|| values.cluster.clone()),
            network: network.filter(|network| !network.is_empty()),
            mesh_id: trust.cloned().unwrap_or_default(),
            binds_low_ports,
            user_volumes: volumes(&mut annotations, known::USER_VOLUMES, &["name"]),
            user_mounts: volumes(&mut annotations, known::USER_MOUNTS, &["name", "mountPath"]),
            has_agent: true,
            warnings: Vec::new(),
        };
        check_agent(&mut annotations);
        let Annotations { mut problems, mut warnings, .. } = annotations;
        // Valid annotations may contradict each other. Invalid ones would be reported twice.
        if problems.is_empty() && mode != Mode::None {
            match mesh::resolve(&Raw::of(given), &RemoteHost::Open, Vec::new()) {
                Ok(resolved) => warnings.extend(resolved.warnings),
                Err(Problems(found)) => problems.extend(found),
            }
        }
        Problems::check(problems).map(|()| Self { warnings, ..sidecar })
    }
}

fn or(value: Value, otherwise: &Value) -> Value {
    if value.is_null() { otherwise.clone() } else { value }
}

fn config(annotations: &mut Annotations<'_>, of_mesh: &Value) -> Value {
    let name = known::PROXY_CONFIG;
    let Some(text) = annotations.get(name) else { return of_mesh.clone() };
    let written = match mapping(name, text) {
        Ok(document) => proxy_config::read(name, &document),
        Err(Problems(problems)) => proxy_config::Parsed { problems, ..Default::default() },
    };
    annotations.problems.extend(written.problems);
    annotations.warnings.extend(written.warnings);
    proxy_config::over(&written.fields, of_mesh)
}

fn mode_of(text: &str) -> Option<Mode> {
    [Mode::Redirect, Mode::Tproxy, Mode::None].into_iter().find(|mode| mode.name() == text)
}

fn mode(annotations: &mut Annotations<'_>, own: &BTreeMap<Setting, String>, proxy_config: &Value) -> Mode {
    let complaint = "is not an interception mode; expected REDIRECT, TPROXY or NONE, in capitals";
    let annotated = annotations.read(known::MODE, complaint, mode_of);
    // Already checked by the policy; empty means the default mode.
    let own = own.get(&Setting::InterceptionMode).map(|text| mode_of(&text.to_ascii_uppercase()));
    let own = own.map(|mode| mode.unwrap_or(Mode::Redirect));
    let configured = proxy_config.get("interceptionMode").and_then(Value::as_str).and_then(mode_of);
    own.or(annotated).or(configured).unwrap_or(Mode::Redirect)
}

/// Surrounding spaces are ignored, here and where the port is used.
fn status_port(annotations: &mut Annotations<'_>, values: &IstioValues) -> Option<u16> {
    let complaint = "is not a port; expected a number from 1 to 65535, or 0 for none";
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let annotated = annotations.read(known::STATUS_PORT, complaint, |text| {
        text.trim().parse::<u16>().ok().filter(|_| is_digits(text.trim()))
    });
    match annotated {
        Some(port) => Some(port).filter(|port| *port != 0),
        None => values.proxy.status_port,
    }
}

/// Enabled only by `true`, as in Istio.
fn binds_low_ports(annotations: &mut Annotations<'_>) -> Option<bool> {
    let text = annotations.get(known::BIND_SERVICE)?;
    if !["true", "false", ""].contains(&text) {
        annotations.warn(known::BIND_SERVICE, " and counts as false");
    }
    Some(text == "true")
}

fn level(annotations: &mut Annotations<'_>, name: &str, faults: LevelFaults, default: &str) -> String {
    let given = annotations.word(name);
    let faults = given.map(faults).unwrap_or_default();
    faults.into_iter().for_each(|(item, text)| annotations.problem(name, item, text));
    given.unwrap_or(default).to_owned()
}

/// The images of the proxy and the init container. The ProxyConfig's image type applies only to the proxy.
fn images(annotations: &mut Annotations<'_>, proxy_config: &Value, values: &IstioValues) -> (String, String) {
    let annotated = annotations.word(known::PROXY_IMAGE_TYPE);
    let configured = proxy_config.get("image").and_then(|image| image.get("imageType")?.as_str());
    let configured = configured.filter(|kind| !kind.is_empty());
    let name = annotations.word(known::PROXY_IMAGE).filter(|name| !name.is_empty());
    if name.is_some_and(|name| !name.contains('/')) {
        let text = ", which has no slash and no effect; expected a complete reference, such as hub.example/mesh/proxyv2:1.30";
        annotations.warn(known::PROXY_IMAGE, text);
    }
    let name = name.filter(|name| name.contains('/'));
    let image =
        |default: &str, kind: &str| reference(&values.hub, name.unwrap_or(default), &values.tag, kind);
    let proxy = annotated.or(configured).unwrap_or(&values.variant);
    (image(&values.proxy.image, proxy), image(&values.init_image, annotated.unwrap_or(&values.variant)))
}

/// `resources` from annotations; null if absent. Any annotation replaces all of the values' resources.
fn resources(annotations: &mut Annotations<'_>) -> Value {
    let mut resources = Value::Null;
    let mut requested: BTreeMap<&str, (&str, f64)> = BTreeMap::new();
    for (name, kind, resource) in known::RESOURCES {
        let Some((quantity, amount)) = annotations.quantity(name) else { continue };
        match requested.get(resource) {
            Some((asking, least)) if is_more(*least, amount) => {
                let text = format!(
                    "is less than {asking} requests, which Kubernetes refuses; expected as much or more"
                );
                annotations.problem(name, quantity, text);
            }
            Some(_) => {}
            None => drop(requested.insert(resource, (name, amount))),
        }
        resources[kind][resource] = quantity.into();
    }
    resources
}

/// Enabled by any string except `false`, as in Istio's template.
fn native(annotations: &mut Annotations<'_>, values: &IstioValues, admission: &AdmissionContext) -> bool {
    let given = annotations.get(known::NATIVE).filter(|text| !text.is_empty());
    if given.is_some_and(|text| !["true", "false"].contains(&text)) {
        annotations.warn(known::NATIVE, " and counts as true");
    }
    match (given, values.native) {
        (Some(text), _) => text != "false",
        (None, Native::Always) => true,
        (None, Native::Never) => false,
        (None, Native::Auto) => admission.native_sidecars,
    }
}

/// Checks annotations for the agent, which are read later from the merged pod, as templates may set them too.
fn check_agent(annotations: &mut Annotations<'_>) {
    annotations.boolean(known::MERGE_METRICS);
    let rewrites = annotations.get(known::REWRITE_PROBES);
    if rewrites.is_some_and(|text| boolean(text).is_none()) {
        let text = ", which is not a boolean, and has no effect; expected true or false";
        annotations.warn(known::REWRITE_PROBES, text);
    }
}

fn readiness(annotations: &mut Annotations<'_>, values: &IstioValues) -> ProxyReadinessProbe {
    let ProxyReadinessProbe { initial_delay, period, failures } = values.proxy.readiness;
    ProxyReadinessProbe {
        initial_delay: annotations.number(known::READINESS_DELAY).unwrap_or(initial_delay),
        period: annotations.number(known::READINESS_PERIOD).unwrap_or(period),
        failures: annotations.number(known::READINESS_FAILURES).unwrap_or(failures),
    }
}

fn metadata(proxy_config: &Value) -> BTreeMap<String, String> {
    let named = proxy_config.get("proxyMetadata").and_then(Value::as_object);
    let texts = named.into_iter().flatten();
    texts.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// The init container's flags without a value, in Istio's order.
fn init_switches(init: InitMode, values: &IstioValues) -> Vec<Setting> {
    let validates = init == InitMode::Validation;
    let switches = [
        (values.log_as_json, Setting::LogAsJson),
        (validates, Setting::RunValidation),
        (validates, Setting::SkipRuleApply),
        (!validates && values.force_apply, Setting::ForceApply),
        (values.native_nftables, Setting::NativeNftables),
    ];
    switches.into_iter().filter(|(is_on, _)| *is_on).map(|(_, setting)| setting).collect()
}

/// Types of Istio's images, as suffixes of tags; a tag without one has the type `default`.
const TYPES: [&str; 2] = ["-debug", "-distroless"];

/// Returns an image's reference: `name` if it has a slash, else under the hub. `kind` replaces the tag's type.
fn reference(hub: &str, name: &str, tag: &str, kind: &str) -> String {
    if name.contains('/') {
        return name.to_owned();
    }
    let path = if hub.is_empty() { name.to_owned() } else { format!("{hub}/{name}") };
    let bare = TYPES.iter().find_map(|end| tag.strip_suffix(end)).unwrap_or(tag);
    match (tag, kind) {
        ("", _) => path,
        (_, "") => format!("{path}:{tag}"),
        (_, "default") => format!("{path}:{bare}"),
        (_, kind) => format!("{path}:{bare}-{kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_replaces_that_of_the_tag() {
        let check =
            |hub, name, tag, kind, expected: &str| assert_eq!(reference(hub, name, tag, kind), expected);
        check("hub.example/mesh", "proxyv2", "1.2", "", "hub.example/mesh/proxyv2:1.2");
        check("mesh", "proxyv2", "1.2", "debug", "mesh/proxyv2:1.2-debug");
        check("mesh", "proxyv2", "1.2-distroless", "debug", "mesh/proxyv2:1.2-debug");
        check("mesh", "proxyv2", "1.2-distroless", "default", "mesh/proxyv2:1.2");
        check("mesh", "proxyv2", "1.2-distroless", "", "mesh/proxyv2:1.2-distroless");
        check("mesh", "hub.example/own:3", "1.2", "debug", "hub.example/own:3");
        check("", "proxyv2", "", "debug", "proxyv2");
    }
}
