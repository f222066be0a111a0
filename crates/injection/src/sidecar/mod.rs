//! The settings of one pod's sidecar, typed: its annotations over its ProxyConfig over the mesh's over the values. Templates and
//! the init container's arguments derive from them only, so that they can't disagree. A plugin gets annotations.

mod annotations;
mod identity;
mod read;
mod traffic;

pub(crate) use identity::OPENSHIFT_USERS;
pub use identity::{Identities, Identity};
pub(crate) use mesh::pod::{INIT, VALIDATION};
pub use mesh::settings::mapping::PROXY;
pub use traffic::{InitMode, Mode, OtherProxy, Traffic};

use crate::admission::strings;
use crate::mesh_config::ProxyReadinessProbe;
use mesh::Setting;
use mesh::settings::mapping::TABLE;
use serde_json::Value;
use std::collections::BTreeMap;
use traffic::written;

#[derive(Clone, Debug)]
pub struct Sidecar {
    pub mode: Mode,
    pub init: InitMode,
    pub traffic: Traffic,
    /// Settings from the pod's annotations `sidecar-init/`, which override `traffic`.
    pub own_settings: BTreeMap<Setting, String>,
    pub init_switches: Vec<Setting>,
    /// Variables of the init container: the ProxyConfig's `proxyMetadata`, and settings without a flag.
    pub init_variables: BTreeMap<String, String>,
    pub identities: Identities,
    /// A CNI plugin sets the rules.
    pub has_plugin: bool,
    /// The mesh's `defaultConfig` with the pod's `proxy.istio.io/config` over it, by JSON names.
    pub proxy_config: Value,
    pub proxy_metadata: BTreeMap<String, String>,
    /// The templates' status port, by the annotation or the values; `None` if disabled.
    pub status_port: Option<u16>,
    /// The proxy's readiness probe, used only with a status port.
    pub readiness: ProxyReadinessProbe,
    /// Allowed failures of the proxy's startup probe, one a second; `None` without such a probe.
    pub startup_failures: Option<u32>,
    /// The proxy is an init container with `restartPolicy: Always`.
    pub native: bool,
    /// The application waits for the proxy (`holdApplicationUntilProxyStarts`). A native sidecar starts first anyway.
    pub hold: bool,
    pub proxy_image: String,
    pub init_image: String,
    /// `resources` of the proxy, by annotations or values; null if absent.
    pub resources: Value,
    pub init_resources: Value,
    /// Value of `--log_output_level`; if empty, programs keep their own default.
    pub log_level: String,
    /// Value of `--proxyLogLevel`; the next field is that of `--proxyComponentLogLevel`.
    pub proxy_log_level: Option<String>,
    pub proxy_component_log_level: Option<String>,
    /// Cluster from the path, else the values; empty if not configured.
    pub cluster: String,
    /// Network from the pod's label, else the path, else the values.
    pub network: Option<String>,
    /// Mesh ID from the values, else the mesh's trust domain.
    pub mesh_id: String,
    /// The proxy may bind ports below 1024 (`sidecar.istio.io/capNetBindService`).
    pub binds_low_ports: bool,
    /// The pod's volumes for its proxy (`sidecar.istio.io/userVolume`), and its further mounts (`userVolumeMount`).
    pub user_volumes: Vec<Value>,
    pub user_mounts: Vec<Value>,
    /// Istio's agent runs beside the proxy, and can answer probes and Prometheus for the application.
    pub has_agent: bool,
    pub warnings: Vec<String>,
}

impl Sidecar {
    /// Replaces Istio's proxy by another one, or adds one to another.
    pub(crate) fn replace_proxy(&mut self, proxy: &OtherProxy) {
        if let Some(uid) = proxy.uid.map(i64::from) {
            self.identities.proxy.user = uid;
            if self.init == InitMode::Validation {
                // Its connections must look like the proxy's own.
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

    /// The init container's arguments from `istio-iptables` on; the pod's own annotations override. Empty without the container.
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

    /// Annotations of the capture for a plugin that the pod lacks; empty without a plugin.
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
                // A plugin excludes the ports of Istio's proxy itself.
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
