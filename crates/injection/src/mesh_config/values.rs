//! The templates' values, from the `values` of Istio's ConfigMap.

use super::mesh::{default_values, over_defaults};
use crate::syntax::{LABEL_VALUE, is_label_value, quantity};
use mesh::settings::mapping::{AnnotationForm, TABLE};
use mesh::{InputProblem, Setting, data::document::DocumentReader};
use serde_json::Value;
use std::{collections::BTreeMap, net::IpAddr};

/// Values merged over Istio's defaults. Only values used by this crate are typed.
#[derive(Clone, Debug)]
pub struct IstioValues {
    pub raw: Value,
    /// `global.hub`: prefix of image names.
    pub hub: String,
    pub tag: String,
    /// `global.variant`: image type, such as `debug`; empty for the tag's type.
    pub variant: String,
    pub pull_policy: Option<&'static str>,
    pub pull_secrets: Vec<String>,
    /// `global.logging.level` of the agent and the init container.
    pub log_level: String,
    pub log_as_json: bool,
    pub native_nftables: bool,
    pub cluster: String,
    pub network: String,
    /// `global.meshID`; if empty, the mesh's trust domain is used.
    pub mesh_id: String,
    /// The agent's certificate issuer: `global.caAddress`, else the revision's control plane.
    pub ca_address: String,
    pub proxy: ProxyValues,
    pub init_image: String,
    /// Null for the proxy's resources.
    pub init_resources: Value,
    pub force_apply: bool,
    /// True if a plugin sets the rules (`pilot.cni`, or `istio_cni`).
    pub has_plugin: bool,
    /// True if pods request the plugin with Multus's annotation.
    pub has_multus: bool,
    pub native: Native,
    /// The control plane's name; empty for the default one.
    pub revision: String,
    /// `sidecarInjectorWebhook.rewriteAppHTTPProbe`. Only Istio's agent answers rewritten probes, so the default is off.
    pub rewrite_probes: bool,
}

#[derive(Clone, Debug)]
pub struct ProxyValues {
    /// Name under the hub, or full reference if it has a slash.
    pub image: String,
    pub resources: Value,
    /// Empty for Envoy's default.
    pub log_level: String,
    pub component_log_level: String,
    /// Nonempty capture lists for pods without capture annotations.
    pub capture: BTreeMap<Setting, String>,
    /// The agent's port; `None` if the agent does not listen.
    pub status_port: Option<u16>,
    pub domain: String,
    pub hold: bool,
    pub readiness: ProxyReadinessProbe,
    /// Allowed failures of the startup probe, one a second; `None` without such a probe.
    pub startup_failures: Option<u32>,
    pub privileged: bool,
    /// Lets proxies bind ports below 1024 (`capNetBindService`).
    pub binds_low_ports: bool,
    pub lifecycle: Value,
    /// `seccompProfile` in Kubernetes' format; null if absent.
    pub seccomp: Value,
    pub outlier_log: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyReadinessProbe {
    /// Seconds, like `period`.
    pub initial_delay: u32,
    pub period: u32,
    /// Allowed consecutive failures.
    pub failures: u32,
}

/// `pilot.env.ENABLE_NATIVE_SIDECARS`: makes proxies native sidecars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    Always,
    Never,
    Auto,
}

impl Default for IstioValues {
    fn default() -> Self {
        Self::read("values", &Value::Object(serde_json::Map::new())).0
    }
}

impl IstioValues {
    pub(crate) fn read(name: &str, given: &Value) -> (Self, Vec<InputProblem>) {
        let (raw, wrong) = over_defaults(given, default_values());
        let mut fields = DocumentReader::of(name, &raw);
        wrong.iter().for_each(|path| fields.problem(path, None, "is not a mapping; expected one"));
        let revision = fields.text("revision");
        let policies = ["Always", "IfNotPresent", "Never"].map(|policy| (policy, policy));
        let values = Self {
            hub: fields.text("global.hub"),
            tag: fields.text("global.tag"),
            variant: fields.text("global.variant"),
            pull_policy: fields.one_of("global.imagePullPolicy", &policies),
            pull_secrets: fields.texts("global.imagePullSecrets"),
            log_level: fields.text("global.logging.level"),
            log_as_json: fields.flag("global.logAsJson"),
            native_nftables: fields.flag("global.nativeNftables"),
            cluster: fields.text("global.multiCluster.clusterName"),
            network: network(&mut fields),
            mesh_id: fields.text("global.meshID"),
            ca_address: ca_address(&mut fields, &revision),
            proxy: proxy(&mut fields),
            init_image: fields.text("global.proxy_init.image"),
            init_resources: resources(&mut fields, "global.proxy_init.resources"),
            force_apply: fields.flag("global.proxy_init.forceApplyIptables"),
            has_plugin: fields.flag("pilot.cni.enabled") | fields.flag("istio_cni.enabled"),
            has_multus: fields.text("pilot.cni.provider") == "multus",
            native: native(&mut fields),
            rewrite_probes: fields.flag("sidecarInjectorWebhook.rewriteAppHTTPProbe"),
            revision,
            raw: Value::Null,
        };
        let problems = fields.finish();
        (Self { raw, ..values }, problems)
    }

    /// `pilot.env`: the control plane's switches.
    pub fn environment(&self) -> BTreeMap<String, String> {
        DocumentReader::of("values", &self.raw).named_texts("pilot.env")
    }
}

fn network(fields: &mut DocumentReader<'_>) -> String {
    let network = fields.text("global.network");
    if !network.is_empty() && !is_label_value(&network) {
        fields.problem("global.network", Some(&network), format!("is not a label value; {LABEL_VALUE}"));
    }
    network
}

fn ca_address(fields: &mut DocumentReader<'_>, revision: &str) -> String {
    let stated = fields.text("global.caAddress");
    let namespace = fields.text("global.istioNamespace");
    match (stated.as_str(), revision) {
        ("", "" | "default") => format!("istiod.{namespace}.svc:15012"),
        ("", revision) => format!("istiod-{revision}.{namespace}.svc:15012"),
        _ => stated,
    }
}

fn proxy(fields: &mut DocumentReader<'_>) -> ProxyValues {
    let startup_failures = fields.number("global.proxy.startupProbe.failureThreshold");
    ProxyValues {
        image: fields.text("global.proxy.image"),
        resources: resources(fields, "global.proxy.resources"),
        log_level: fields.text("global.proxy.logLevel"),
        component_log_level: fields.text("global.proxy.componentLogLevel"),
        capture: capture(fields),
        status_port: fields.port_or_none("global.proxy.statusPort"),
        domain: fields.text("global.proxy.clusterDomain"),
        hold: fields.flag("global.proxy.holdApplicationUntilProxyStarts"),
        readiness: ProxyReadinessProbe {
            initial_delay: fields.number("global.proxy.readinessInitialDelaySeconds"),
            period: fields.number("global.proxy.readinessPeriodSeconds"),
            failures: fields.number("global.proxy.readinessFailureThreshold"),
        },
        startup_failures: fields.flag("global.proxy.startupProbe.enabled").then_some(startup_failures),
        privileged: fields.flag("global.proxy.privileged"),
        binds_low_ports: fields.flag("global.proxy.capNetBindService"),
        lifecycle: free(fields, "global.proxy.lifecycle"),
        seccomp: free(fields, "global.proxy.seccompProfile"),
        outlier_log: fields.text("global.proxy.outlierLogPath"),
    }
}

fn capture(fields: &mut DocumentReader<'_>) -> BTreeMap<Setting, String> {
    let mut capture = BTreeMap::new();
    for (key, setting) in [
        ("includeIPRanges", Setting::ServiceCidr),
        // The chart and its template use different names.
        ("excludeIPRanges", Setting::ServiceExcludeCidr),
        ("excludeOutboundIPRanges", Setting::ServiceExcludeCidr),
        ("includeInboundPorts", Setting::InboundPorts),
        ("excludeInboundPorts", Setting::InboundPortsExclude),
        ("includeOutboundPorts", Setting::OutboundPorts),
        ("excludeOutboundPorts", Setting::OutboundPortsExclude),
    ] {
        let path = format!("global.proxy.{key}");
        let Some(row) = TABLE.iter().find(|row| row.setting == setting) else { continue };
        let text = fields.text(&path);
        match listed(&text, row.form) {
            Ok(list) if !list.is_empty() => drop(capture.entry(setting).or_insert(list)),
            Ok(_) => {}
            Err(faults) => {
                faults.into_iter().for_each(|(item, text)| fields.problem(&path, Some(item), text));
            }
        }
    }
    capture
}

/// The default is `auto`, as in Istio.
fn native(fields: &mut DocumentReader<'_>) -> Native {
    // Reports variables that aren't scalars.
    fields.named_texts("pilot.env");
    let known = [("true", Native::Always), ("false", Native::Never), ("auto", Native::Auto)];
    fields.one_of("pilot.env.ENABLE_NATIVE_SIDECARS", &known).unwrap_or(Native::Auto)
}

fn resources(fields: &mut DocumentReader<'_>, path: &str) -> Value {
    let given = free(fields, path);
    for kind in given.as_object().into_iter().flat_map(serde_json::Map::keys) {
        // `claims` is a list without quantities.
        if kind != "claims" {
            for (name, text) in fields.named_texts(&format!("{path}.{kind}")) {
                if let Err(fault) = quantity(&text) {
                    fields.problem(&format!("{path}.{kind}.{name}"), Some(&text), fault);
                }
            }
        }
    }
    given
}

/// A mapping that is passed to Kubernetes unchecked; null if empty.
fn free(fields: &mut DocumentReader<'_>, path: &str) -> Value {
    fields.mapping(path).filter(|map| !map.is_empty()).map_or(Value::Null, |map| map.clone().into())
}

/// Maximum number of items in an annotation's list. The API server limits annotations only after calling webhooks.
const MAX_ITEMS: usize = 16_384;

pub(crate) fn excess(text: &str) -> Option<String> {
    let items = text.split(',').count();
    (items > MAX_ITEMS).then(|| format!("holds {items} items; expected at most {MAX_ITEMS}"))
}

/// Normalizes a comma-separated list or `*`. Networks keep their host bits, which the rules interpret.
pub(crate) fn listed(text: &str, form: AnnotationForm) -> Result<String, Vec<(&str, String)>> {
    let faults = form.faults(text);
    if !faults.is_empty() {
        return Err(faults);
    }
    let spelled = |item: &str| match form {
        AnnotationForm::Ports | AnnotationForm::PortsOrAll => Some(item.parse::<u16>().ok()?.to_string()),
        AnnotationForm::Networks | AnnotationForm::NetworksOrAll => {
            let (address, length) = item.split_once('/')?;
            Some(format!("{}/{}", address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?))
        }
        AnnotationForm::Interfaces | AnnotationForm::Mode => Some(item.to_owned()),
    };
    Ok(match text.trim() {
        text @ ("" | "*") => text.to_owned(),
        // All items are valid, so `filter_map` drops none.
        text => text.split(',').filter_map(|item| spelled(item.trim())).collect::<Vec<_>>().join(","),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the paths from this file's string literals.
    #[test]
    fn each_path_is_documented() {
        let document = include_str!("../../../../docs/injection.md");
        let code = include_str!("values.rs").split("#[cfg(test)]").next().unwrap_or_default();
        let roots = ["global.", "pilot.", "istio_cni.", "sidecarInjectorWebhook."];
        let texts = code.split('"').skip(1).step_by(2);
        let paths: Vec<&str> = texts.filter(|text| roots.iter().any(|root| text.starts_with(root))).collect();
        assert!(paths.len() > 30, "{paths:?}");
        for path in paths.into_iter().filter(|path| !path.contains('{')) {
            let last = path.strip_prefix("pilot.env.").unwrap_or(path);
            assert!(document.contains(&format!("`{last}`")), "docs/injection.md does not name {path}");
        }
    }

    #[test]
    fn of_millions_of_faults_the_first_are_returned() {
        let commas = ",".repeat(2_000_000);
        let faults = listed(&commas, AnnotationForm::PortsOrAll).expect_err("empty items");
        assert_eq!(faults.len(), mesh::Problems::MAX_ITEMS);
    }
}
