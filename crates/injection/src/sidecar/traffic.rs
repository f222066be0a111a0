//! What a pod wants captured: typed, and passed on to an init container by arguments or to a plugin by annotations.

use super::annotations::Annotations;
use super::mode::{Mode, OtherProxy};
use crate::mesh_config::list::{self, Network, items, written, written_or_all};
use crate::mesh_config::{CaptureValues, MeshConfig};
use mesh::Setting;
use mesh::istio::annotations as known;
use mesh::settings::mapping::AnnotationForm;
use mesh::sources::{Given, Source, Wildcard};
use rules::InterfaceName;
use std::collections::BTreeMap;

/// Ports of Istio's proxy that are never captured: its metrics, its readiness.
const ISTIO_PORTS: [u16; 2] = [15090, 15021];

/// What is captured of a pod, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub mode: Mode,
    pub outbound_port: u16,
    pub inbound_port: u16,
    /// The number, of a user or of a group, by which the rules know the proxy.
    pub proxy: i64,
    pub include_networks: Wildcard<Network>,
    pub exclude_networks: Vec<Network>,
    pub include_inbound: Wildcard<u16>,
    /// The agent's port is among them; the proxy's own are not.
    pub exclude_inbound: Vec<u16>,
    /// The agent's port, if nothing but the agent makes it one of `exclude_inbound`.
    pub(super) agent_port: Option<u16>,
    /// Ports of the proxy, which are never captured either.
    pub own_ports: Vec<u16>,
    /// Settings that another proxy than Istio's has changed: a plugin does not know them.
    pub of_other_proxy: Vec<Setting>,
    /// `None` where they are not configured.
    pub include_outbound: Option<Vec<u16>>,
    pub exclude_outbound: Option<Vec<u16>>,
    pub vm_interfaces: Option<Vec<InterfaceName>>,
    pub exclude_interfaces: Option<Vec<InterfaceName>>,
}

impl Traffic {
    /// By annotations, else by the values. All annotations are checked, even those without effect.
    pub(super) fn read(
        annotations: &mut Annotations<'_>,
        mode: Mode,
        status_port: Option<u16>,
        values: &CaptureValues,
        mesh: &MeshConfig,
    ) -> Self {
        let exclude_inbound =
            annotations.list(known::EXCLUDE_INBOUND, AnnotationForm::Ports, list::port).map(items);
        let mut exclude_inbound = exclude_inbound.unwrap_or_else(|| values.exclude_inbound.clone());
        let agent_port = status_port.filter(|port| !exclude_inbound.contains(port));
        exclude_inbound.extend(agent_port);
        let mut outbound = |name, default: &Vec<u16>| {
            let listed = annotations.list(name, AnnotationForm::Ports, list::port).map(items);
            listed.or_else(|| (!default.is_empty()).then(|| default.clone()))
        };
        let include_outbound = outbound(known::INCLUDE_OUTBOUND, &values.include_outbound);
        let exclude_outbound = outbound(known::EXCLUDE_OUTBOUND, &values.exclude_outbound);
        let mut interfaces =
            |name| annotations.list(name, AnnotationForm::Interfaces, list::interface).map(items);
        let (now, before) = (interfaces(known::VM_INTERFACES), interfaces(known::VM_INTERFACES_BEFORE));
        let exclude_interfaces = interfaces(known::EXCLUDE_INTERFACES);
        let include_networks =
            annotations.list(known::INCLUDE_NETWORKS, AnnotationForm::NetworksOrAll, list::network);
        let exclude_networks =
            annotations.list(known::EXCLUDE_NETWORKS, AnnotationForm::Networks, list::network).map(items);
        let include_inbound =
            annotations.list(known::INCLUDE_INBOUND, AnnotationForm::PortsOrAll, list::port);
        Self {
            mode,
            outbound_port: mesh.outbound_port,
            inbound_port: mesh.inbound_port,
            proxy: 0,
            include_networks: include_networks.unwrap_or_else(|| values.include_networks.clone()),
            exclude_networks: exclude_networks.unwrap_or_else(|| values.exclude_networks.clone()),
            include_inbound: include_inbound.unwrap_or_else(|| values.include_inbound.clone()),
            exclude_inbound,
            agent_port,
            own_ports: ISTIO_PORTS.to_vec(),
            of_other_proxy: Vec::new(),
            include_outbound,
            exclude_outbound,
            vm_interfaces: now.or(before),
            exclude_interfaces,
        }
    }

    /// Makes what is captured that of another proxy, or of another one beside it.
    pub(super) fn follow(&mut self, proxy: &OtherProxy) {
        let mut changed = |setting, is_changed: bool| {
            if is_changed && !self.of_other_proxy.contains(&setting) {
                self.of_other_proxy.push(setting);
            }
        };
        changed(Setting::EnvoyPort, proxy.outbound_port.is_some());
        changed(Setting::InboundCapturePort, proxy.inbound_port.is_some());
        changed(Setting::ProxyUid, proxy.uid.is_some());
        self.outbound_port = proxy.outbound_port.unwrap_or(self.outbound_port);
        self.inbound_port = proxy.inbound_port.unwrap_or(self.inbound_port);
        self.proxy = proxy.uid.map_or(self.proxy, i64::from);
        self.own_ports.retain(|port| !proxy.own_ports.contains(port));
        self.own_ports.splice(..0, proxy.own_ports.iter().copied());
        self.exclude_inbound.retain(|port| !self.own_ports.contains(port));
    }

    /// All ports at which no inbound connection is captured.
    pub(super) fn excluded_inbound(&self) -> String {
        written(&[&self.own_ports[..], &self.exclude_inbound].concat())
    }

    /// The settings of what is captured, in the order in which Istio writes their flags.
    pub(super) fn settings(&self) -> Vec<(Setting, String)> {
        let mut settings = vec![
            (Setting::EnvoyPort, self.outbound_port.to_string()),
            (Setting::InboundCapturePort, self.inbound_port.to_string()),
            (Setting::ProxyUid, self.proxy.to_string()),
            (Setting::InterceptionMode, self.mode.name().to_owned()),
            (Setting::ServiceCidr, written_or_all(&self.include_networks)),
            (Setting::ServiceExcludeCidr, written(&self.exclude_networks)),
            (Setting::InboundPorts, written_or_all(&self.include_inbound)),
            (Setting::InboundPortsExclude, self.excluded_inbound()),
        ];
        let given = [
            (Setting::OutboundPorts, self.include_outbound.as_deref().map(written)),
            (Setting::OutboundPortsExclude, self.exclude_outbound.as_deref().map(written)),
            (Setting::VmInterfaces, self.vm_interfaces.as_deref().map(written)),
            (Setting::ExcludeInterfaces, self.exclude_interfaces.as_deref().map(written)),
        ];
        settings.extend(given.into_iter().filter_map(|(setting, value)| Some((setting, value?))));
        settings
    }

    /// All settings with their sources, for a check of the whole.
    pub(super) fn given(
        &self,
        annotations: &Annotations<'_>,
        own: &BTreeMap<Setting, String>,
    ) -> Vec<(Setting, Given)> {
        let by_istio = |setting: Setting| {
            let names = setting.row().annotations;
            names.iter().find(|name| annotations.get(name).is_some()).map(|name| (*name).to_owned())
        };
        let settings = self.settings().into_iter().map(|(setting, value)| {
            let source = match by_istio(setting) {
                Some(name) => Source::Annotation(name),
                None => Source::Flag(setting.row().long),
            };
            (setting, Given { value, source })
        });
        let own = own.iter().map(|(setting, value)| {
            let name = setting.row().annotation().unwrap_or_else(|| setting.row().option());
            (*setting, Given { value: value.clone(), source: Source::Annotation(name) })
        });
        settings.chain(own).collect()
    }
}
