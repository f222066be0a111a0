//! The table of values to type: for each setting that takes one an example, and all there are where they are few.
//!
//! Help, completions, man pages and the reference show them. Tests hold each against the code that reads it.

use super::Setting;
use crate::mesh::Mesh;

/// What may be given to a setting.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub setting: Setting,
    /// A value that means something.
    pub example: &'static str,
    /// All values, where there are no others.
    pub all: &'static [&'static str],
}

/// A row of a setting that takes many values.
pub(crate) const fn open(setting: Setting, example: &'static str) -> Row {
    Row { setting, example, all: &[] }
}

/// A row of a setting that takes these values and no others.
pub(crate) const fn closed(setting: Setting, example: &'static str, all: &'static [&'static str]) -> Row {
    Row { setting, example, all }
}

/// One row for each setting that takes a value, in the order of the settings. Those of a mesh stand in its own folder.
pub const TABLE: &[Row] = &[
    closed(Setting::Mesh, "istio", Mesh::NAMES),
    open(Setting::NetworkNamespace, "/run/netns/pod"),
    closed(Setting::ForceBinary, "nft", &["legacy", "nft"]),
    open(Setting::LockWait, "10"),
    open(Setting::Timeout, "10s"),
    closed(Setting::Format, "json", &["text", "json", "yaml"]),
    closed(Setting::Backend, "nftables", &["nftables", "iptables", "iptables-nft", "iptables-legacy"]),
    open(Setting::Filename, "pod.yaml"),
    open(Setting::PodIps, "10.1.2.3,fd00::3"),
    open(Setting::DnsServers, "10.96.0.10"),
    open(Setting::IptablesVersion, "1.8.9"),
    open(Setting::ProbePort, "15002"),
    open(Setting::ProbeTimeout, "5s"),
    open(Setting::LogOutputLevel, "default:debug"),
    open(Setting::LogTarget, "stderr"),
    open(Setting::LogCaller, "default"),
    open(Setting::LogStacktraceLevel, "default:none"),
    open(Setting::LogRotate, "/var/log/sidecar-init.log"),
    open(Setting::LogRotateMaxAge, "30"),
    open(Setting::LogRotateMaxBackups, "1000"),
    open(Setting::LogRotateMaxSize, "104857600"),
    open(Setting::Vklog, "0"),
    closed(Setting::Sender, "external", &["app", "proxy", "external"]),
    closed(Setting::Direction, "inbound", &["outbound", "inbound"]),
    closed(Setting::Protocol, "udp", &["tcp", "udp"]),
    open(Setting::Destination, "10.0.0.5:443"),
    open(Setting::PacketSource, "10.0.0.9:40000"),
    open(Setting::SenderUid, "1000"),
    open(Setting::SenderGid, "1000"),
    open(Setting::InInterface, "eth0"),
    open(Setting::OutInterface, "eth0"),
    open(Setting::PacketMark, "0x539"),
    closed(Setting::CtState, "established", &["new", "established", "related", "invalid"]),
    open(Setting::FromSave, "rules.txt"),
    closed(Setting::Expect, "captured", &["captured", "not-captured"]),
    closed(Setting::ExplainFormat, "json", &["text", "json", "yaml", "picture", "svg", "mermaid"]),
    closed(
        Setting::RenderFormat,
        "svg",
        &["iptables", "commands", "nft", "json", "yaml", "picture", "svg", "mermaid", "dot"],
    ),
    closed(Setting::PictureOf, "traffic", &["traffic", "rules"]),
    closed(Setting::PictureFamily, "v6", &["v4", "v6"]),
    open(Setting::StatusInterval, "500ms"),
    open(Setting::TraceRule, "inbound-port"),
    closed(Setting::TraceProtocol, "tcp", &["tcp", "udp", "icmp", "icmpv6"]),
    open(Setting::TraceDestination, "10.0.0.0/8"),
    open(Setting::TraceCount, "10"),
    open(Setting::TraceTime, "30s"),
    closed(Setting::SandboxProxy, "none", &["built-in", "none"]),
    closed(Setting::RunAs, "app", &["app", "proxy", "root"]),
    open(Setting::ConfDir, "/etc/cni/net.d"),
    open(Setting::BinDir, "/opt/cni/bin"),
    open(Setting::StateDir, "/run/sidecar-init/cni"),
    open(Setting::PluginLog, "journal"),
    open(Setting::ExcludeNamespaces, "kube-system,monitoring"),
    open(Setting::PluginEntry, "{\"timeout\":\"5s\"}"),
    open(Setting::InstallWait, "30s"),
    open(Setting::ReadyFile, "/run/sidecar-init/ready"),
    open(Setting::ReadyAddress, "127.0.0.1:15071"),
    open(Setting::Metrics, "0.0.0.0:15072"),
    open(Setting::Netns, "/run/netns/pod"),
    open(Setting::Pid, "4711"),
    open(Setting::HostAdd, "10.1.2.3,fd00::3"),
    open(Setting::HostRemove, "10.1.2.3"),
    closed(Setting::Shell, "bash", &["bash", "zsh", "fish"]),
    open(Setting::ManDirectory, "man1"),
];

impl Row {
    /// The row of a setting.
    pub fn of(setting: Setting) -> Option<&'static Self> {
        setting.table.examples().iter().find(|row| row.setting == setting)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Table};
    use super::*;
    use crate::mesh::Mesh;

    fn tables() -> impl Iterator<Item = Table> {
        Mesh::ALL.iter().map(|mesh| Table::Of(*mesh)).chain([Table::Common])
    }

    #[test]
    fn every_setting_that_takes_a_value_has_a_row() {
        for table in tables() {
            let takes = table.rows().iter().filter(|row| row.kind != Kind::Switch);
            let takes: Vec<Setting> = takes.map(|row| row.setting).collect();
            assert_eq!(table.examples().iter().map(|row| row.setting).collect::<Vec<_>>(), takes);
        }
    }

    #[test]
    fn examples_are_among_the_values_and_help_names_them_all() {
        for row in tables().flat_map(Table::examples).filter(|row| !row.all.is_empty()) {
            let setting = row.setting.row();
            assert!(row.all.contains(&row.example), "{}", setting.name());
            for value in row.all {
                assert!(setting.help.contains(value), "the help of {} lacks {value}", setting.name());
            }
        }
    }
}
