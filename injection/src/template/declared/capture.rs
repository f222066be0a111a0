//! The init container that sets the capture rules, or checks those of a plugin: what its arguments say is typed, so a
//! template only says that it is there, and where its proxy differs.

use super::condition::When;
use super::node::Each;
use super::reading::Reader;
use super::writing::Scene;
use crate::sidecar::Init;
use policy::settings::{Setting, mapping};
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
const ISTIOS: [&str; 2] = ["15090", "15021"];

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

    fn is_there(&self, scene: &Scene<'_>) -> bool {
        scene.sight.sidecar.init != Init::Nothing && self.when.as_ref().is_none_or(|when| when.holds(scene))
    }

    /// The container; `None` where there is none.
    pub(super) fn container(&self, scene: &Scene<'_>) -> Option<Value> {
        let sidecar = scene.sight.sidecar;
        if !self.is_there(scene) {
            return None;
        }
        let security = match sidecar.init {
            Init::Capture => json!({
                "allowPrivilegeEscalation": false,
                "capabilities": {"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]},
                "privileged": false,
                "readOnlyRootFilesystem": false,
                "runAsGroup": 0,
                "runAsNonRoot": false,
                "runAsUser": 0,
            }),
            Init::Validation | Init::Nothing => json!({
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "privileged": false,
                "readOnlyRootFilesystem": true,
                "runAsGroup": sidecar.proxy_gid,
                "runAsNonRoot": true,
                // What it sends has to look like the proxy's own.
                "runAsUser": self.proxy_uid.map_or(sidecar.proxy_uid, i64::from),
            }),
        };
        let mut container = json!({
            "name": if sidecar.init == Init::Capture { "istio-init" } else { "istio-validation" },
            "image": sidecar.init_image,
            "args": self.arguments(scene),
            "securityContext": security,
        });
        if let Value::Object(container) = &mut container {
            let variables = Each::ProxyMetadata.items(sidecar);
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

    /// The sidecar's arguments, with what differs.
    pub(super) fn arguments(&self, scene: &Scene<'_>) -> Vec<String> {
        let mut arguments = scene.sight.sidecar.arguments.clone();
        for (flag, value) in self.differences(scene) {
            if let Some(at) = arguments.iter().position(|argument| argument == flag)
                && let Some(old) = arguments.get_mut(at + 1)
            {
                *old = value;
            }
        }
        arguments
    }

    fn differences(&self, scene: &Scene<'_>) -> Vec<(&'static str, String)> {
        let number = |flag, number: Option<String>| number.map(|number| (flag, number));
        let ports = self.own_ports.as_ref().map(|own| {
            let own = own.iter().map(u16::to_string);
            ("-d", own.chain(others(scene)).collect::<Vec<_>>().join(","))
        });
        [
            number("-p", self.outbound_port.map(|port| port.to_string())),
            number("-z", self.inbound_port.map(|port| port.to_string())),
            number("-u", self.proxy_uid.map(|uid| uid.to_string())),
            ports,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Annotations by which the pod tells a plugin what the arguments would say.
    pub(super) fn annotations(&self, scene: &Scene<'_>) -> Map<String, Value> {
        let sidecar = scene.sight.sidecar;
        let mut found = Map::new();
        if sidecar.init != Init::Validation || !self.is_there(scene) {
            return found;
        }
        let annotated = scene.sight.pod.pointer("/metadata/annotations");
        if scene.sight.configuration.values.cni.multus {
            let own = annotated.and_then(|annotated| annotated.get(NETWORKS)?.as_str()).unwrap_or_default();
            found.insert(NETWORKS.to_owned(), with_plugin(own).into());
        }
        for row in mapping::TABLE {
            let flag = row.setting.row().short.map(|short| format!("-{short}"));
            let Some(value) = flag.and_then(|flag| scene.argument(&flag)) else { continue };
            let value = match row.setting {
                // The plugin adds those of the proxy itself.
                Setting::InboundPortsExclude => others_with_status(scene).join(","),
                _ => value.to_owned(),
            };
            let said = |key: &&&str| annotated.is_some_and(|annotated| annotated.get(key).is_some());
            let Some(key) = row.annotations.iter().find(said).or(row.annotations.first()) else { continue };
            // To say nothing means the plugin's default, which may be something.
            if !value.is_empty() || !row.default.is_empty() {
                found.insert((*key).to_owned(), value.into());
            }
        }
        for (flag, value) in self.differences(scene) {
            let row = policy::settings::TABLE.iter().find(|row| row.short == flag.chars().nth(1));
            found.extend(row.and_then(|row| row.annotation()).map(|key| (key, value.into())));
        }
        found
    }
}

/// The networks that a pod asks for, with that of the plugin.
fn with_plugin(own: &str) -> String {
    if let Ok(Value::Array(mut networks)) = serde_json::from_str::<Value>(own) {
        if !networks.iter().any(|network| network.get("name").is_some_and(|name| name == PLUGIN)) {
            networks.push(json!({"name": PLUGIN}));
        }
        return Value::Array(networks).to_string();
    }
    let names = own.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != PLUGIN);
    names.chain([PLUGIN]).collect::<Vec<_>>().join(", ")
}

/// Ports that the pod itself excludes: all but those of Istio's proxy.
fn others(scene: &Scene<'_>) -> Vec<String> {
    let status = scene.sight.sidecar.status_port.map(|port| port.to_string());
    others_with_status(scene).into_iter().filter(|port| Some(port) != status.as_ref()).collect()
}

fn others_with_status(scene: &Scene<'_>) -> Vec<String> {
    let ports = scene.argument("-d").unwrap_or_default().split(',');
    ports.filter(|port| !port.is_empty() && !ISTIOS.contains(port)).map(str::to_owned).collect()
}
