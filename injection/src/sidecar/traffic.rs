//! What a pod wants captured: typed, and told on to an init container by arguments or to a plugin by annotations.

use super::annotations::Annotations;
use super::{Init, Mode, known};
use crate::configuration::list::{self, Network, items, written, written_or_all};
use crate::configuration::{self, Mesh, Values};
use policy::Setting;
use policy::settings::Row;
use policy::settings::mapping::{self, Form};
use policy::sources::{Given, Source, Wildcard};
use rules::InterfaceName;
use std::collections::BTreeMap;

/// Ports that are never captured: the proxy's metrics, its readiness.
const NEVER: [u16; 2] = [15090, 15021];

/// What is captured of a pod, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub mode: Mode,
    /// Where the proxy listens for outbound connections.
    pub outbound_port: u16,
    /// Where it listens for inbound ones.
    pub inbound_port: u16,
    /// The number, of a user or of a group, by which the rules know the proxy.
    pub proxy: i64,
    pub include_networks: Wildcard<Network>,
    pub exclude_networks: Vec<Network>,
    pub include_inbound: Wildcard<u16>,
    /// The agent's port is among them; the proxy's own are not.
    pub exclude_inbound: Vec<u16>,
    /// `None` where nobody says anything.
    pub include_outbound: Option<Vec<u16>>,
    pub exclude_outbound: Option<Vec<u16>>,
    pub vm_interfaces: Option<Vec<InterfaceName>>,
    pub exclude_interfaces: Option<Vec<InterfaceName>>,
}

impl Traffic {
    /// What annotations say, and for the rest the values. All annotations are checked, even where they don't count.
    pub(super) fn read(
        said: &mut Annotations<'_>,
        mode: Mode,
        status_port: Option<u16>,
        values: &configuration::Capture,
        mesh: &Mesh,
    ) -> Self {
        let exclude_inbound = said.list(known::EXCLUDE_INBOUND, Form::Ports, list::port).map(items);
        let mut exclude_inbound = exclude_inbound.unwrap_or_else(|| values.exclude_inbound.clone());
        exclude_inbound.extend(status_port.filter(|port| !exclude_inbound.contains(port)));
        let mut outbound = |name, default: &Vec<u16>| {
            let listed = said.list(name, Form::Ports, list::port).map(items);
            listed.or_else(|| (!default.is_empty()).then(|| default.clone()))
        };
        let include_outbound = outbound(known::INCLUDE_OUTBOUND, &values.include_outbound);
        let exclude_outbound = outbound(known::EXCLUDE_OUTBOUND, &values.exclude_outbound);
        let mut interfaces = |name| said.list(name, Form::Interfaces, list::interface).map(items);
        let (now, before) = (interfaces(known::VM_INTERFACES), interfaces(known::VM_INTERFACES_BEFORE));
        let exclude_interfaces = interfaces(known::EXCLUDE_INTERFACES);
        let include_networks = said.list(known::INCLUDE_NETWORKS, Form::NetworksOrAll, list::network);
        let exclude_networks = said.list(known::EXCLUDE_NETWORKS, Form::Networks, list::network).map(items);
        let include_inbound = said.list(known::INCLUDE_INBOUND, Form::PortsOrAll, list::port);
        Self {
            mode,
            outbound_port: mesh.outbound_port,
            inbound_port: mesh.inbound_port,
            proxy: 0,
            include_networks: include_networks.unwrap_or_else(|| values.include_networks.clone()),
            exclude_networks: exclude_networks.unwrap_or_else(|| values.exclude_networks.clone()),
            include_inbound: include_inbound.unwrap_or_else(|| values.include_inbound.clone()),
            exclude_inbound,
            include_outbound,
            exclude_outbound,
            vm_interfaces: now.or(before),
            exclude_interfaces,
        }
    }

    /// The settings of what is captured, in the order in which Istio writes their flags.
    fn settings(&self) -> Vec<(Setting, String)> {
        let inbound: Vec<u16> = NEVER.into_iter().chain(self.exclude_inbound.iter().copied()).collect();
        let mut settings = vec![
            (Setting::EnvoyPort, self.outbound_port.to_string()),
            (Setting::InboundCapturePort, self.inbound_port.to_string()),
            (Setting::ProxyUid, self.proxy.to_string()),
            (Setting::InterceptionMode, self.mode.name().to_owned()),
            (Setting::ServiceCidr, written_or_all(&self.include_networks)),
            (Setting::ServiceExcludeCidr, written(&self.exclude_networks)),
            (Setting::InboundPorts, written_or_all(&self.include_inbound)),
            (Setting::InboundPortsExclude, written(&inbound)),
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

    /// All settings and by whom they are said, for a check of the whole.
    pub(super) fn given(
        &self,
        said: &Annotations<'_>,
        own: &BTreeMap<Setting, String>,
    ) -> Vec<(Setting, Given)> {
        let by_istio = |setting: Setting| {
            let annotations = mapping::Row::of(setting).map_or(&[][..], |row| row.annotations);
            annotations.iter().find(|name| said.get(name).is_some()).map(|name| (*name).to_owned())
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

    /// The arguments of the init container. `own` are settings that the pod says in our own annotations: they win, and go
    /// where Istio writes the flag, or behind its flags.
    pub(super) fn arguments(
        &self,
        init: Init,
        log_level: &str,
        values: &Values,
        own: &BTreeMap<Setting, String>,
    ) -> Vec<String> {
        let mut arguments = match init {
            Init::Capture | Init::Validation => vec!["istio-iptables".to_owned()],
            Init::Nothing => return Vec::new(),
        };
        let settings = self.settings();
        for (setting, value) in &settings {
            arguments.push(letter(setting.row()));
            // The mode is worked out already, and in the letters in which every such program knows it.
            let own = own.get(setting).filter(|_| *setting != Setting::InterceptionMode);
            arguments.push(own.unwrap_or(value).clone());
        }
        let is_further = |setting: &Setting| settings.iter().all(|(known, _)| known != setting);
        for (setting, value) in own.iter().filter(|(setting, _)| is_further(setting)) {
            if !setting.row().long.is_empty() {
                arguments.push(format!("{}={value}", setting.row().option()));
            }
        }
        let flag = |setting: Setting| setting.row().option();
        arguments.push(format!("{}={log_level}", flag(Setting::LogOutputLevel)));
        let validates = init == Init::Validation;
        let switches = [
            (values.log_as_json, Setting::LogAsJson),
            (validates, Setting::RunValidation),
            (validates, Setting::SkipRuleApply),
            (!validates && values.init.force_apply, Setting::ForceApply),
            (values.native_nftables, Setting::NativeNftables),
        ];
        arguments.extend(switches.into_iter().filter(|(on, _)| *on).map(|(_, setting)| flag(setting)));
        arguments
    }

    /// What a plugin is to know of the pod, as annotations; those that say the same already are left as they stand.
    pub(super) fn told_to_plugin(&self, said: &Annotations<'_>) -> Vec<(&'static str, String)> {
        let vm = if said.get(known::VM_INTERFACES).is_some() {
            known::VM_INTERFACES
        } else {
            known::VM_INTERFACES_BEFORE
        };
        let some = |list: &[Network]| (!list.is_empty()).then(|| written(list));
        let told = [
            (known::MODE, Some(self.mode.name().to_owned())),
            (known::INCLUDE_NETWORKS, Some(written_or_all(&self.include_networks))),
            (known::EXCLUDE_NETWORKS, some(&self.exclude_networks)),
            (known::INCLUDE_INBOUND, Some(written_or_all(&self.include_inbound))),
            (known::EXCLUDE_INBOUND, Some(written(&self.exclude_inbound))),
            (known::INCLUDE_OUTBOUND, self.include_outbound.as_deref().map(written)),
            (known::EXCLUDE_OUTBOUND, self.exclude_outbound.as_deref().map(written)),
            (vm, self.vm_interfaces.as_deref().map(written)),
            (known::EXCLUDE_INTERFACES, self.exclude_interfaces.as_deref().map(written)),
        ];
        let same =
            |text: &str, other: &str| text.split(',').map(str::trim).eq(other.split(',').map(str::trim));
        told.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .filter(|(name, value)| !said.get(name).is_some_and(|text| same(text, value)))
            .collect()
    }
}

/// The short form of a flag, as Istio writes it.
fn letter(row: &Row) -> String {
    match row.short {
        Some(letter) => format!("-{letter}"),
        None => row.option(),
    }
}
