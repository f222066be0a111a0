//! What the settings of a sidecar are passed on as: arguments of the init container, or annotations for a plugin.

use super::{InitMode, Sidecar};
use crate::mesh_config::list::{Network, written, written_or_all};
use crate::namespaces::strings;
use mesh::Setting;
use mesh::istio::annotations as known;
use mesh::settings::SettingRow;
use serde_json::Value;
use std::collections::BTreeMap;

impl Sidecar {
    /// The arguments of the init container, from `istio-iptables` on; empty where there is none. Settings by the pod's own
    /// annotations win: they are written where Istio writes the flag, or after its flags.
    pub fn arguments(&self) -> Vec<String> {
        if self.init == InitMode::Nothing {
            return Vec::new();
        }
        let mut arguments = vec!["istio-iptables".to_owned()];
        let settings = self.traffic.settings();
        for (setting, value) in &settings {
            arguments.push(letter(setting.row()));
            // The mode is resolved already, in the spelling that all programs know.
            let own = self.own_settings.get(setting).filter(|_| *setting != Setting::InterceptionMode);
            arguments.push(own.unwrap_or(value).clone());
        }
        let is_further = |setting: &Setting| settings.iter().all(|(known, _)| known != setting);
        for (setting, value) in self.own_settings.iter().filter(|(setting, _)| is_further(setting)) {
            if !setting.row().long.is_empty() {
                arguments.push(format!("{}={value}", setting.row().option()));
            }
        }
        if !self.log_level.is_empty() {
            arguments.push(format!("{}={}", Setting::LogOutputLevel.row().option(), self.log_level));
        }
        arguments.extend(self.init_switches.iter().map(|setting| setting.row().option()));
        arguments
    }

    /// The number by which the rules know the proxy, as `-u` takes it.
    pub(crate) fn proxy_number(&self) -> String {
        let own = self.own_settings.get(&Setting::ProxyUid);
        own.cloned().unwrap_or_else(|| self.traffic.proxy.to_string())
    }

    /// Annotations with what a plugin captures; empty where there is no plugin, and without those that the pod has
    /// already with the same meaning.
    pub fn plugin_annotations(&self, pod: &Value) -> Vec<(String, String)> {
        if !self.has_plugin {
            return Vec::new();
        }
        let traffic = &self.traffic;
        let given: BTreeMap<&str, &str> = strings(pod, "annotations").collect();
        let vm = match given.contains_key(known::VM_INTERFACES) {
            true => known::VM_INTERFACES,
            false => known::VM_INTERFACES_BEFORE,
        };
        let some = |list: &[Network]| (!list.is_empty()).then(|| written(list));
        // A plugin knows the ports of Istio's proxy.
        let exclude_inbound =
            if self.has_agent { written(&traffic.exclude_inbound) } else { traffic.excluded_inbound() };
        let annotations = [
            (known::MODE, Some(traffic.mode.name().to_owned())),
            (known::INCLUDE_NETWORKS, Some(written_or_all(&traffic.include_networks))),
            (known::EXCLUDE_NETWORKS, some(&traffic.exclude_networks)),
            (known::INCLUDE_INBOUND, Some(written_or_all(&traffic.include_inbound))),
            (known::EXCLUDE_INBOUND, Some(exclude_inbound)),
            (known::INCLUDE_OUTBOUND, traffic.include_outbound.as_deref().map(written)),
            (known::EXCLUDE_OUTBOUND, traffic.exclude_outbound.as_deref().map(written)),
            (vm, traffic.vm_interfaces.as_deref().map(written)),
            (known::EXCLUDE_INTERFACES, traffic.exclude_interfaces.as_deref().map(written)),
        ];
        let annotations = annotations.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let same =
            |text: &str, other: &str| text.split(',').map(str::trim).eq(other.split(',').map(str::trim));
        let annotations = annotations
            .filter(|(name, value)| !given.get(name.as_str()).is_some_and(|text| same(text, value)));
        let of_other = traffic.settings().into_iter().filter(|(setting, _)| {
            self.init == InitMode::Validation
                && traffic.of_other_proxy.contains(setting)
                && !self.own_settings.contains_key(setting)
        });
        annotations
            .chain(of_other.filter_map(|(setting, value)| Some((setting.row().annotation()?, value))))
            .collect()
    }
}

/// The short form of a flag, as Istio writes it.
fn letter(row: &SettingRow) -> String {
    match row.short {
        Some(letter) => format!("-{letter}"),
        None => row.option(),
    }
}
