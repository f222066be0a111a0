//! The init container that sets the capture rules, or checks those of a plugin: what its arguments say is typed, so a
//! template only says that it is there, and where its proxy differs.

use super::condition::When;
use super::node::Whole;
use super::reading::Reader;
use super::writing::Scene;
use crate::sidecar::{Identity, Init, Sidecar, Traffic};
use crate::template::multus;
use policy::Setting;
use serde_json::{Map, Value, json};

/// `capture: true`, or what of it differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Capture {
    when: Option<When>,
    /// The proxy's port for outbound connections.
    outbound_port: Option<u16>,
    /// Its port for inbound ones.
    inbound_port: Option<u16>,
    /// The user whose connections are the proxy's own.
    proxy_uid: Option<u32>,
    /// Ports of the proxy, which are never captured, in the place of those of Istio's proxy.
    own_ports: Option<Vec<u16>>,
}

/// What a mapping under `capture` may say.
const WORDS: [&str; 5] = ["when", "outboundPort", "inboundPort", "proxyUid", "ownPorts"];

/// Ports of Istio's proxy that its init container always leaves alone: of its metrics and of its health.
const ISTIOS: [u16; 2] = [15090, 15021];

/// What tells a plugin a setting that differs.
const PLUGIN_ANNOTATIONS: [(Setting, &str); 4] = [
    (Setting::EnvoyPort, "sidecar-init/envoy-port"),
    (Setting::InboundCapturePort, "sidecar-init/inbound-capture-port"),
    (Setting::ProxyUid, "sidecar-init/proxy-uid"),
    (Setting::InboundPortsExclude, "traffic.sidecar.istio.io/excludeInboundPorts"),
];

/// The annotation by which a pod asks Multus for networks, as JSON or as a list.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// The one that stands for Istio's plugin.
const PLUGIN: &str = "default/istio-cni";

impl Capture {
    /// Reads what stands under `capture`.
    pub(super) fn read(written: &Value, reader: &mut Reader) -> Option<Self> {
        match written {
            Value::Bool(is) => return is.then(Self::default),
            Value::Object(_) => {}
            _ => {
                reader.problem("capture", None, "is neither true nor false, nor a mapping of what differs");
                return None;
            }
        }
        let fields = reader.entries(written, "capture")?;
        let mut capture = Self::default();
        for (word, value) in fields {
            let at = format!("capture.{word}");
            let mut number = |most: u64| {
                let number = value.as_u64().filter(|number| (1..=most).contains(number));
                if number.is_none() {
                    reader.problem(&at, Some(&value.to_string()), &format!("is no number from 1 to {most}"));
                }
                number
            };
            let port = |number: u64| u16::try_from(number).ok();
            match word.as_str() {
                "when" => capture.when = Some(When::read(value, &at, reader)),
                "outboundPort" => capture.outbound_port = number(65_535).and_then(port),
                "inboundPort" => capture.inbound_port = number(65_535).and_then(port),
                "proxyUid" => {
                    capture.proxy_uid =
                        number(i32::MAX.unsigned_abs().into()).and_then(|uid| uid.try_into().ok());
                }
                "ownPorts" => {
                    let items =
                        value.as_array().map(|items| items.iter().map(Value::as_u64).collect::<Vec<_>>());
                    let ports = items.and_then(|items| {
                        let ports = items.iter().map(|item| item.and_then(port).filter(|port| *port > 0));
                        ports.collect::<Option<Vec<u16>>>()
                    });
                    if ports.is_none() {
                        reader.problem(&at, None, "is no list of ports from 1 to 65535");
                    }
                    capture.own_ports = ports;
                }
                other => reader.unknown("capture", other, WORDS.into_iter()),
            }
        }
        Some(capture)
    }

    /// Makes of what Istio's proxy would need what this one needs: before anything is written, so that arguments, annotations
    /// and whoever checks them agree.
    pub(super) fn adapt(&self, sidecar: &mut Sidecar) {
        let before = sidecar.traffic.clone();
        let traffic = &mut sidecar.traffic;
        traffic.outbound_port = self.outbound_port.unwrap_or(traffic.outbound_port);
        traffic.inbound_port = self.inbound_port.unwrap_or(traffic.inbound_port);
        if let Some(uid) = self.proxy_uid.map(i64::from) {
            traffic.proxy = uid;
            sidecar.proxy_identity.user = uid;
            if sidecar.init == Init::Validation {
                // What it sends has to look like the proxy's own.
                sidecar.init_identity.user = uid;
            }
        }
        let agent = sidecar.status_port;
        if let Some(own) = &self.own_ports {
            let others =
                before.exclude_inbound.iter().filter(|port| Some(**port) != agent && !own.contains(port));
            traffic.exclude_inbound = own.iter().chain(others).copied().collect();
            // There is no agent of Istio's to ask.
            sidecar.status_port = None;
            sidecar.startup_failures = None;
            sidecar.has_agent = false;
        }
        let after = sidecar.traffic.clone();
        let changes = [
            (Setting::EnvoyPort, before.outbound_port.to_string(), after.outbound_port.to_string()),
            (Setting::InboundCapturePort, before.inbound_port.to_string(), after.inbound_port.to_string()),
            (Setting::ProxyUid, before.proxy.to_string(), after.proxy.to_string()),
            (Setting::InboundPortsExclude, istios(&before), self.excluded(&after)),
        ];
        for (setting, before, after) in changes.into_iter().filter(|(_, before, after)| before != after) {
            say(sidecar, setting, &before, &after);
        }
    }

    fn excluded(&self, traffic: &Traffic) -> String {
        match &self.own_ports {
            Some(_) => joined(&traffic.exclude_inbound),
            None => istios(traffic),
        }
    }

    fn is_meant(&self, scene: &Scene<'_>) -> bool {
        self.when.as_ref().is_none_or(|when| when.holds(scene))
    }

    /// The container; `None` where there is none.
    pub(super) fn container(&self, scene: &Scene<'_>) -> Option<Value> {
        let sidecar = scene.sight.sidecar;
        let name = sidecar.init.name().filter(|_| self.is_meant(scene))?;
        let sets = sidecar.init == Init::Capture;
        let capabilities = match sets {
            true => json!({"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]}),
            false => json!({"drop": ["ALL"]}),
        };
        let Identity { user, group } = sidecar.init_identity;
        let privileged = scene.sight.configuration.values.proxy.privileged;
        let mut container = json!({
            "name": name,
            "image": sidecar.init_image,
            "args": sidecar.arguments,
            "securityContext": {
                "allowPrivilegeEscalation": privileged,
                "capabilities": capabilities,
                "privileged": privileged,
                "readOnlyRootFilesystem": !sets,
                "runAsGroup": group,
                "runAsNonRoot": user != 0,
                "runAsUser": user,
            },
        });
        if let Some(profile) = Whole::ProxySeccomp.value(scene.sight) {
            container["securityContext"]["seccompProfile"] = profile;
        }
        if let Value::Object(container) = &mut container {
            let variables = sidecar.init_variables.iter();
            let variables: Vec<Value> =
                variables.map(|(name, value)| json!({"name": name, "value": value})).collect();
            if !variables.is_empty() {
                container.insert("env".to_owned(), variables.into());
            }
            if let Some(policy) = &sidecar.pull_policy {
                container.insert("imagePullPolicy".to_owned(), policy.as_str().into());
            }
            if !sidecar.init_resources.is_null() {
                container.insert("resources".to_owned(), sidecar.init_resources.clone());
            }
        }
        Some(container)
    }

    /// Annotations by which the pod tells a plugin what the arguments would say.
    pub(super) fn annotations(&self, scene: &Scene<'_>) -> Map<String, Value> {
        let mut found = Map::new();
        // A plugin has to be told of the mode NONE too.
        if !self.is_meant(scene) {
            return found;
        }
        let told = scene.sight.sidecar.plugin_annotations.iter();
        found.extend(told.map(|(name, value)| ((*name).to_owned(), value.as_str().into())));
        let cni = &scene.sight.configuration.values.cni;
        if cni.enabled && cni.multus {
            let own = scene.annotation(NETWORKS).unwrap_or_default().to_owned();
            found.insert(NETWORKS.to_owned(), multus::with(own, PLUGIN).into());
        }
        found
    }
}

/// Says a setting anew, to the init container and to a plugin. What the pod says of it in our own annotation stays.
fn say(sidecar: &mut Sidecar, setting: Setting, before: &str, after: &str) {
    let Some(letter) = setting.row().short else { return };
    let at = sidecar.arguments.iter().position(|argument| *argument == format!("-{letter}"));
    match at.and_then(|at| sidecar.arguments.get_mut(at + 1)) {
        Some(value) if value == before => after.clone_into(value),
        Some(_) | None => return,
    }
    let known = PLUGIN_ANNOTATIONS.iter().find(|(of, _)| *of == setting);
    if let Some((_, name)) = known.filter(|_| sidecar.init == Init::Validation) {
        sidecar.plugin_annotations.retain(|(other, _)| other != name);
        sidecar.plugin_annotations.push((name, after.to_owned()));
    }
}

/// What `-d` says for Istio's proxy.
fn istios(traffic: &Traffic) -> String {
    joined(&ISTIOS.into_iter().chain(traffic.exclude_inbound.iter().copied()).collect::<Vec<_>>())
}

fn joined(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::settings::mapping;

    #[test]
    fn a_plugin_knows_the_annotations() {
        for (setting, name) in PLUGIN_ANNOTATIONS {
            let istios = mapping::Row::of(setting).and_then(|row| row.annotations.first().copied());
            let ours = setting.row().annotation();
            assert!(istios == Some(name) || ours.as_deref() == Some(name), "{name}");
        }
    }
}
