//! Settings of a pod's sidecar, from annotations, the pod's and mesh's ProxyConfig, and the values, in that order. Templates and
//! init container arguments derive only from these settings, so they can't disagree. A plugin reads annotations.

mod annotations;
mod identity;
mod read;

pub(crate) use identity::OPENSHIFT_USERS;
pub use identity::{Identities, Identity};
pub(crate) use mesh::pod::{INIT, VALIDATION};
pub use mesh::settings::mapping::PROXY;

use crate::admission::strings;
use crate::mesh_config::{MeshConfig, ProxyReadinessProbe};
use annotations::Annotations;
use mesh::sources::{Given, Source};
use mesh::{Setting, settings::mapping::TABLE};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct Sidecar {
    pub mode: Mode,
    pub init: InitMode,
    pub traffic: Traffic,
    /// Settings from the pod's `sidecar-init/` annotations, which override `traffic`.
    pub own_settings: BTreeMap<Setting, String>,
    pub init_switches: Vec<Setting>,
    /// Variables of the init container: the ProxyConfig's `proxyMetadata`, and settings without a flag.
    pub init_variables: BTreeMap<String, String>,
    pub identities: Identities,
    pub has_plugin: bool,
    /// The mesh's `defaultConfig` with the pod's `proxy.istio.io/config` over it, by JSON names.
    pub proxy_config: Value,
    pub proxy_metadata: BTreeMap<String, String>,
    /// The templates' status port, from the annotation or the values; `None` if disabled.
    pub status_port: Option<u16>,
    /// The proxy's readiness probe, used only with a status port.
    pub readiness: ProxyReadinessProbe,
    /// Allowed failures of the proxy's startup probe, one a second; `None` without such a probe.
    pub startup_failures: Option<u32>,
    /// True for an init container with `restartPolicy: Always`.
    pub native: bool,
    /// Makes applications wait for the proxy (`holdApplicationUntilProxyStarts`). A native sidecar starts first anyway.
    pub hold: bool,
    pub proxy_image: String,
    pub init_image: String,
    /// The proxy's `resources`, from annotations or values; null if absent.
    pub resources: Value,
    pub init_resources: Value,
    /// Value of `--log_output_level`; if empty, programs keep their own default.
    pub log_level: String,
    /// Value of `--proxyLogLevel`.
    pub proxy_log_level: Option<String>,
    pub proxy_component_log_level: Option<String>,
    pub cluster: String,
    pub network: Option<String>,
    pub mesh_id: String,
    pub binds_low_ports: bool,
    /// The pod's volumes for its proxy (`sidecar.istio.io/userVolume`), and its further mounts (`userVolumeMount`).
    pub user_volumes: Vec<Value>,
    pub user_mounts: Vec<Value>,
    /// True if Istio's agent runs, which can answer probes and Prometheus for the application.
    pub has_agent: bool,
    pub warnings: Vec<String>,
}

impl Sidecar {
    /// Replaces Istio's proxy with another proxy, or adds one.
    pub(crate) fn replace_proxy(&mut self, proxy: &OtherProxy) {
        if let Some(uid) = proxy.uid.map(i64::from) {
            self.identities.proxy.user = uid;
            if self.init == InitMode::Validation {
                // Validation connections must look like the proxy's own.
                self.identities.init.user = uid;
            }
        }
        // The agent's port has no listener.
        self.status_port = None;
        let agent = self.traffic.agent_port.take();
        self.traffic.exclude_inbound.retain(|port| Some(*port) != agent);
        if self.has_agent {
            self.traffic.own_ports.clear();
        }
        self.traffic.follow(proxy);
        self.startup_failures = None;
        self.has_agent = false;
    }

    /// The init container's arguments, starting with `istio-iptables`; the pod's annotations win. Empty without the container.
    pub fn arguments(&self) -> Vec<String> {
        if self.init == InitMode::Nothing {
            return Vec::new();
        }
        let mut arguments = vec!["istio-iptables".to_owned()];
        let settings = self.traffic.settings();
        for (setting, value) in &settings {
            let row = setting.row();
            arguments.push(row.short.map_or_else(|| row.option(), |letter| format!("-{letter}")));
            // The mode is already resolved, in the spelling that all programs accept.
            let own = self.own_settings.get(setting).filter(|_| *setting != Setting::InterceptionMode);
            arguments.push(own.unwrap_or(value).clone());
        }
        let is_further = |setting: &Setting| {
            !setting.row().long.is_empty() && settings.iter().all(|(known, _)| known != setting)
        };
        let further = self.own_settings.iter().filter(|(setting, _)| is_further(setting));
        let level = (!self.log_level.is_empty()).then_some((&Setting::LogOutputLevel, &self.log_level));
        let named =
            further.chain(level).map(|(setting, value)| format!("{}={value}", setting.row().option()));
        arguments.extend(named);
        arguments.extend(self.init_switches.iter().map(|setting| setting.row().option()));
        arguments
    }

    /// The value of `-u`, which identifies the proxy to the rules.
    pub(crate) fn proxy_number(&self) -> String {
        let own = self.own_settings.get(&Setting::ProxyUid);
        own.cloned().unwrap_or_else(|| self.traffic.proxy.to_string())
    }

    /// The plugin's capture annotations that the pod lacks; empty without a plugin.
    pub fn plugin_annotations(&self, pod: &Value) -> Vec<(String, String)> {
        if !self.has_plugin {
            return Vec::new();
        }
        let traffic = &self.traffic;
        let given: BTreeMap<&str, &str> = strings(pod, "annotations").collect();
        let same =
            |text: &str, other: &str| text.split(',').map(str::trim).eq(other.split(',').map(str::trim));
        let annotations = traffic.settings().into_iter().filter_map(|(setting, value)| {
            let Some(row) = TABLE.iter().find(|row| row.setting == setting) else {
                let is_told = self.init == InitMode::Validation
                    && traffic.of_other_proxy.contains(&setting)
                    && !self.own_settings.contains_key(&setting);
                return setting.row().annotation().filter(|_| is_told).map(|name| (name, value));
            };
            let value = match setting {
                // A plugin itself excludes the ports of Istio's proxy.
                Setting::InboundPortsExclude if self.has_agent => written(&traffic.exclude_inbound),
                Setting::ServiceExcludeCidr if value.is_empty() => return None,
                _ => value,
            };
            let names = row.setting.row().annotations;
            let name = names.iter().find(|name| given.contains_key(*name)).or(names.last())?;
            let is_said = given.get(name).is_some_and(|text| same(text, &value));
            (!is_said).then(|| ((*name).to_owned(), value))
        });
        annotations.collect()
    }
}

/// Ports of Istio's proxy that are never captured: metrics and readiness.
const ISTIO_PORTS: [u16; 2] = [15090, 15021];

/// `sidecar.istio.io/interceptionMode`: how inbound traffic reaches the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Redirect,
    Tproxy,
    /// No capture and no init container.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitMode {
    /// `istio-init`, which sets the rules.
    Capture,
    /// `istio-validation`, which checks a plugin's rules.
    Validation,
    Nothing,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Redirect => "REDIRECT",
            Self::Tproxy => "TPROXY",
            Self::None => "NONE",
        }
    }
}

impl InitMode {
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Capture => Some(INIT),
            Self::Validation => Some(VALIDATION),
            Self::Nothing => None,
        }
    }
}

/// A template's proxy other than Istio's, without an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherProxy {
    /// Listening port, like `inbound_port`; `None` for Istio's port.
    pub outbound_port: Option<u16>,
    pub inbound_port: Option<u16>,
    pub uid: Option<u32>,
    pub own_ports: &'static [u16],
}

/// The capture of a pod's traffic, and the path to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub mode: Mode,
    pub outbound_port: u16,
    pub inbound_port: u16,
    /// The user or group number that identifies the proxy to the rules.
    pub proxy: i64,
    /// The configured lists of [`TABLE`], except `exclude_inbound`.
    lists: BTreeMap<Setting, String>,
    /// Includes the agent's port, but not `own_ports`.
    pub exclude_inbound: Vec<u16>,
    /// The agent's port, if `exclude_inbound` contains it only for the agent.
    agent_port: Option<u16>,
    /// The proxy's ports, which are never captured.
    pub own_ports: Vec<u16>,
    /// Settings changed by a proxy other than Istio's, which a plugin does not derive.
    pub of_other_proxy: Vec<Setting>,
}

impl Traffic {
    /// Reads the capture from annotations, else values. All annotations are checked, even those without effect.
    fn read(
        annotations: &mut Annotations<'_>,
        mode: Mode,
        status_port: Option<u16>,
        values: &BTreeMap<Setting, String>,
        mesh: &MeshConfig,
    ) -> Self {
        let always = [Setting::ServiceCidr, Setting::ServiceExcludeCidr, Setting::InboundPorts];
        let mut lists: BTreeMap<Setting, String> =
            always.map(|setting| (setting, String::new())).into_iter().chain(values.clone()).collect();
        // Problems with excluded and outbound ports come first.
        let (first, others) = TABLE.split_at(4);
        for row in others.iter().chain(first).filter(|row| row.setting != Setting::InterceptionMode) {
            let names = row.setting.row().annotations.iter();
            let given: Vec<String> = names.filter_map(|name| annotations.list(name, row.form)).collect();
            // The pod's first annotation wins.
            lists.extend(given.into_iter().next().map(|list| (row.setting, list)));
        }
        let exclude_inbound = lists.remove(&Setting::InboundPortsExclude).unwrap_or_default();
        let mut exclude_inbound: Vec<u16> =
            exclude_inbound.split(',').filter_map(|port| port.parse().ok()).collect();
        let agent_port = status_port.filter(|port| !exclude_inbound.contains(port));
        exclude_inbound.extend(agent_port);
        Self {
            mode,
            outbound_port: mesh.outbound_port,
            inbound_port: mesh.inbound_port,
            proxy: 0,
            lists,
            exclude_inbound,
            agent_port,
            own_ports: ISTIO_PORTS.to_vec(),
            of_other_proxy: Vec::new(),
        }
    }

    fn follow(&mut self, proxy: &OtherProxy) {
        let changed = [
            proxy.outbound_port.map(|_| Setting::EnvoyPort),
            proxy.inbound_port.map(|_| Setting::InboundCapturePort),
            proxy.uid.map(|_| Setting::ProxyUid),
        ];
        self.of_other_proxy.extend(changed.into_iter().flatten());
        self.outbound_port = proxy.outbound_port.unwrap_or(self.outbound_port);
        self.inbound_port = proxy.inbound_port.unwrap_or(self.inbound_port);
        self.proxy = proxy.uid.map_or(self.proxy, i64::from);
        self.own_ports.retain(|port| !proxy.own_ports.contains(port));
        self.own_ports.splice(..0, proxy.own_ports.iter().copied());
        self.exclude_inbound.retain(|port| !self.own_ports.contains(port));
    }

    /// The settings in the order of Istio's flags.
    fn settings(&self) -> Vec<(Setting, String)> {
        let mut settings = vec![
            (Setting::EnvoyPort, self.outbound_port.to_string()),
            (Setting::InboundCapturePort, self.inbound_port.to_string()),
            (Setting::ProxyUid, self.proxy.to_string()),
        ];
        let value = |setting| match setting {
            Setting::InterceptionMode => Some(self.mode.name().to_owned()),
            Setting::InboundPortsExclude => {
                Some(written(&[&self.own_ports[..], &self.exclude_inbound].concat()))
            }
            _ => self.lists.get(&setting).cloned(),
        };
        settings.extend(TABLE.iter().filter_map(|row| Some((row.setting, value(row.setting)?))));
        settings
    }

    fn given(&self, annotations: &Annotations<'_>, own: &BTreeMap<Setting, String>) -> Vec<(Setting, Given)> {
        let settings = self.settings().into_iter().map(|(setting, value)| {
            let by_istio = setting.row().annotations.iter().find(|name| annotations.get(name).is_some());
            let by_istio = by_istio.map(|name| Source::Annotation((*name).to_owned()));
            (setting, Given { value, source: by_istio.unwrap_or(Source::Flag(setting.row().long)) })
        });
        let own = own.iter().map(|(setting, value)| {
            let name = setting.row().annotation().unwrap_or_else(|| setting.row().option());
            (*setting, Given { value: value.clone(), source: Source::Annotation(name) })
        });
        settings.chain(own).collect()
    }
}

fn written(ports: &[u16]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
