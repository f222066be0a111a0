//! The capture of a pod's traffic, and its way to the proxy.

use super::annotations::Annotations;
use crate::mesh_config::MeshConfig;
use mesh::Setting;
use mesh::pod::{INIT, VALIDATION};
use mesh::settings::mapping::TABLE;
use mesh::sources::{Given, Source};
use std::collections::BTreeMap;

/// Ports of Istio's proxy that are never captured: metrics and readiness.
const ISTIO_PORTS: [u16; 2] = [15090, 15021];

/// `sidecar.istio.io/interceptionMode`: the way of inbound traffic to the proxy.
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
    /// `istio-validation`, which checks the rules of a plugin.
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

/// Differences of a template's proxy from Istio's. It has no agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherProxy {
    /// Listening port; `None` for that of Istio's proxy. The same for inbound.
    pub outbound_port: Option<u16>,
    pub inbound_port: Option<u16>,
    /// The user that identifies the proxy to the rules.
    pub uid: Option<u32>,
    pub own_ports: &'static [u16],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub mode: Mode,
    pub outbound_port: u16,
    pub inbound_port: u16,
    /// The user or group number that identifies the proxy to the rules.
    pub proxy: i64,
    /// The configured lists of [`TABLE`], without that of the next field.
    lists: BTreeMap<Setting, String>,
    /// Includes the agent's port, but not the proxy's own.
    pub exclude_inbound: Vec<u16>,
    /// The agent's port, if `exclude_inbound` contains it only for the agent.
    pub(super) agent_port: Option<u16>,
    /// Ports of the proxy, which are never captured either.
    pub own_ports: Vec<u16>,
    /// Settings changed by a proxy other than Istio's, which a plugin does not derive.
    pub of_other_proxy: Vec<Setting>,
}

impl Traffic {
    /// The capture by annotations, else by the values. All annotations are checked, even those without effect.
    pub(super) fn read(
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
            // The first annotation of the pod counts.
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

    pub(super) fn follow(&mut self, proxy: &OtherProxy) {
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
    pub(super) fn settings(&self) -> Vec<(Setting, String)> {
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

    pub(super) fn given(
        &self,
        annotations: &Annotations<'_>,
        own: &BTreeMap<Setting, String>,
    ) -> Vec<(Setting, Given)> {
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

pub(super) fn written(ports: &[u16]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
