//! Built-in templates, which turn a sidecar into a pod patch: Istio's proxy, standalone Envoy and linkerd's proxy.

mod context;
mod sidecar;

use super::{TemplateContext, go};
use crate::sidecar::{OtherProxy, PROXY};
use context::{RenderContext, TemplateParts, set};
use mesh::{Problems, istio::annotations::PROXY_IMAGE};
use serde_json::{Value, json};
use std::{mem, sync::LazyLock};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// Istio's proxy as istiod expects it: the agent, which starts Envoy.
    Sidecar,
    Envoy,
    /// linkerd's proxy as its control plane expects it.
    Linkerd,
}

impl BuiltIn {
    pub const ALL: [Self; 3] = [Self::Sidecar, Self::Envoy, Self::Linkerd];

    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The template's name, its container's name, and its proxy if that is not Istio's.
    fn row(self) -> (&'static str, &'static str, Option<&'static TextTemplate>) {
        match self {
            Self::Sidecar => ("sidecar", PROXY, None),
            Self::Envoy => ("envoy", "envoy", Some(&ENVOY)),
            Self::Linkerd => ("linkerd", "linkerd-proxy", Some(&LINKERD)),
        }
    }

    pub(super) fn other_proxy(self) -> Option<&'static OtherProxy> {
        self.row().2.map(|template| &template.proxy)
    }

    pub(super) fn render(self, input: &TemplateContext<'_>) -> Result<Value, Problems> {
        let (template, container, of_text) = self.row();
        let mut context = RenderContext { template, container, input, problems: Vec::new() };
        let parts = match of_text {
            Some(template) => template.parts(&mut context),
            None => sidecar::parts(&mut context),
        };
        Problems::check(mem::take(&mut context.problems)).map(|()| context.patch(parts))
    }
}

/// Standalone Envoy or linkerd's proxy: a Go template, and its additional settings.
struct TextTemplate {
    proxy: OtherProxy,
    rows: &'static [Row],
    parsed: LazyLock<gtmpl_ng::Template>,
}

/// Istio's ports and user, without its agent.
static ENVOY: TextTemplate = TextTemplate {
    proxy: OtherProxy {
        outbound_port: None,
        inbound_port: None,
        uid: None,
        // Metrics and probes: never captured, so the kubelet reaches them.
        own_ports: &[15090, 15021],
    },
    rows: OF_ENVOY,
    parsed: LazyLock::new(|| parsed(include_str!("envoy.yaml"))),
};

static LINKERD: TextTemplate = TextTemplate {
    proxy: OtherProxy {
        outbound_port: Some(4140),
        inbound_port: Some(4143),
        uid: Some(2102),
        // The proxy's policy and administration ports.
        own_ports: &[4190, 4191],
    },
    rows: OF_LINKERD,
    parsed: LazyLock::new(|| parsed(include_str!("linkerd.yaml"))),
};

fn parsed(text: &str) -> gtmpl_ng::Template {
    go::parsed("built-in", text, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A setting's name in the template, its annotation (empty for none), its path in the values and its default.
type Row = (&'static str, &'static str, &'static str, &'static str);

const OF_ENVOY: &[Row] = &[
    ("image", PROXY_IMAGE, "envoy.image", ""),
    ("config", "envoy.sidecar-init/config", "envoy.configMap", "envoy"),
    ("ready_port", "envoy.sidecar-init/ready-port", "envoy.readyPort", ""),
];

const OF_LINKERD: &[Row] = &[
    ("image", "config.linkerd.io/proxy-image", "linkerd.image", ""),
    ("control_plane", "", "linkerd.namespace", "linkerd"),
    ("trust_anchors", "", "linkerd.identityTrustAnchorsPEM", ""),
    ("trust_domain", "", "linkerd.identityTrustDomain", ""),
    ("networks", "", "linkerd.clusterNetworks", NETWORKS),
    ("policy", POLICY, "linkerd.defaultInboundPolicy", "all-unauthenticated"),
    ("log_level", "config.linkerd.io/proxy-log-level", "linkerd.logLevel", "warn,linkerd=info,hickory=error"),
    ("opaque_ports", "config.linkerd.io/opaque-ports", "linkerd.opaquePorts", OPAQUE_PORTS),
];

const POLICY: &str = "config.linkerd.io/default-inbound-policy";
const OPAQUE_PORTS: &str = "25,587,3306,4444,5432,6379,9300,11211";
/// Default cluster networks.
const NETWORKS: &str = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8";

impl TextTemplate {
    fn parts(&self, context: &mut RenderContext<'_>) -> TemplateParts {
        let (sidecar, admission) = (context.input.sidecar, context.input.admission);
        let ports: Vec<&Value> = context.ports().filter_map(|port| port.get("containerPort")).collect();
        let mut data = json!({
            "namespace": admission.namespace.name,
            "name": context.canonical_name(),
            "domain": context.input.values.proxy.domain,
            "logs_json": context.input.values.log_as_json,
            "mode": sidecar.mode.name(),
            "native": sidecar.native,
            "hold": sidecar.hold,
            "level": sidecar.proxy_log_level,
            "user": sidecar.identities.proxy.user,
            "inbound_port": sidecar.traffic.inbound_port,
            "outbound_port": sidecar.traffic.outbound_port,
            "ports": ports,
            "metadata": context.proxy_metadata().collect::<Vec<_>>(),
            "security_context": context.security_context_of_envoy(false, true),
        });
        for (name, annotation, path, default) in self.rows {
            let given = context.annotation_or_value(annotation, path);
            data[name] = given.unwrap_or_else(|| (*default).to_owned()).into();
        }
        let image = data["image"].as_str().and_then(set).or_else(|| set(&sidecar.proxy_image));
        data["image"] = json!(image);
        let mut made = go::made("built-in", &self.parsed, &data).unwrap_or_else(|Problems(found)| {
            context.problems.extend(found);
            Value::Null
        });
        for problem in made["problems"].as_array().into_iter().flatten() {
            let [at, text] = ["at", "text"].map(|field| problem[field].as_str().unwrap_or_default());
            let at = match self.rows.iter().find(|(name, ..)| *name == at) {
                Some((_, annotation, ..)) if context.metadata("annotations", annotation).is_some() => {
                    format!("annotation {annotation}")
                }
                Some((_, _, path, _)) => format!("values: {path}"),
                None => at.to_owned(),
            };
            context.problem(&at, problem["item"].as_str(), text);
        }
        let volumes = made["volumes"].as_array().cloned().unwrap_or_default();
        let labels = made["labels"].as_object().cloned().unwrap_or_default();
        TemplateParts { labels, proxy: made["proxy"].take(), volumes, ..TemplateParts::default() }
    }
}
