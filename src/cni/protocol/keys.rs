//! The table of our network configuration's keys, the keys of other origin, and a JSON object with raw values.

use super::CniVersion;
use mesh::settings::nearest;
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{collections::HashSet, fmt, iter};

#[derive(Clone, Copy, Debug)]
pub(crate) struct PluginKey {
    pub(crate) name: &'static str,
    pub(crate) form: &'static str,
    pub(crate) help: &'static str,
}

pub(crate) const CAPTURE: &str = "capture";
pub(crate) const DEFAULTS: &str = "defaults";
pub(crate) const EXCLUDE_NAMESPACES: &str = "exclude_namespaces";
pub(crate) const BACKEND: &str = "backend";
pub(crate) const TIMEOUT: &str = "timeout";
pub(crate) const STATE_DIR: &str = "state_dir";
pub(crate) const LOG: &str = "log";
pub(crate) const LOG_MAX_BYTES: &str = "log_max_bytes";
pub(crate) const KUBECONFIG: &str = "kubeconfig";

pub(crate) const KEYS: [PluginKey; 9] = [
    PluginKey {
        name: CAPTURE,
        form: "{SETTING: VALUE, ..}",
        help: "Capture settings for every container in the network, by flag name; a pod's annotations override them",
    },
    PluginKey {
        name: DEFAULTS,
        form: "{SETTING: VALUE, ..}",
        help: "Defaults for settings that an injected pod's annotations omit",
    },
    PluginKey {
        name: EXCLUDE_NAMESPACES,
        form: "[NAMESPACE, ..]",
        help: "Kubernetes namespaces whose pods are excluded [default: kube-system]",
    },
    PluginKey {
        name: KUBECONFIG,
        form: "PATH",
        help: "Kubeconfig with which sidecar-node, in the plugin's folder, reads each pod [default: none]",
    },
    PluginKey {
        name: BACKEND,
        form: "BACKEND",
        help: "nftables, iptables, iptables-nft or iptables-legacy [default: nftables]",
    },
    PluginKey { name: TIMEOUT, form: "TIME", help: "Time limit of a call, 100ms to 10m [default: 10s]" },
    PluginKey {
        name: STATE_DIR,
        form: "PATH",
        help: "Directory for attachments and counters [default: /run/sidecar-init/cni]",
    },
    PluginKey {
        name: LOG,
        form: "PATH",
        help: "Log file (one JSON line per call), journal or none [default: /var/log/sidecar-init/cni.log]",
    },
    PluginKey {
        name: LOG_MAX_BYTES,
        form: "NUMBER",
        help: "Size at which the log file is renamed to PATH.1 [default: 10485760]",
    },
];

/// Keys of the specification, or added by runtimes and `libcni`.
const OTHERS: &str = "cniVersion cniVersions name type args capabilities disableCheck disableGC dns ipMasq ipam prevResult \
                      runtimeConfig";

const RESERVED: &str = "cni.dev/";

pub(crate) fn has_key(entry: &str, keys: &[&str]) -> bool {
    PluginFields::parse(entry).is_ok_and(|fields| keys.iter().any(|key| fields.value(key).is_some()))
}

pub(super) fn complaint(name: &str) -> Option<String> {
    let known = || KEYS.iter().map(|key| key.name).chain(OTHERS.split(' '));
    if name.starts_with(RESERVED) || known().any(|key| key == name) {
        return None;
    }
    let hint = match nearest(name, known()) {
        Some(similar) => format!("did you mean {similar}?"),
        None => format!("expected one of {}", KEYS.map(|key| key.name).join(", ")),
    };
    Some(format!("unknown key; {hint}"))
}

#[derive(Debug)]
pub(crate) struct PluginFields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> PluginFields<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let fields = deserializer.deserialize_map(FieldsVisitor)?;
        deserializer.end().map(|()| fields)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// A field's value; `None` if it is missing, or `null`, which Go writes for an unset field.
    pub(crate) fn value(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.iter().find(|(key, _)| *key == name)?;
        Some(value).filter(|value| value.get() != "null")
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.iter().any(|(key, _)| key == name)
    }

    pub(crate) fn doubles(&self) -> impl Iterator<Item = &str> {
        let mut seen = HashSet::new();
        self.0.iter().map(|(name, _)| name.as_str()).filter(move |name| !seen.insert(*name))
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = PluginFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let fields = iter::from_fn(|| map.next_entry().transpose());
        fields.collect::<Result<_, _>>().map(PluginFields)
    }
}

pub(crate) fn help() -> String {
    let keys: String =
        KEYS.iter().map(|key| format!("  \"{}\": {}\n      {}\n", key.name, key.form, key.help)).collect();
    let versions = CniVersion::ALL.map(CniVersion::name).join(", ");
    format!("Keys of the network configuration:\n{keys}\nVersions of the specification: {versions}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_has_the_default_values() {
        use super::super::{LogTarget, Places, TIMEOUT};
        let Places { state, log: LogTarget::File(log), log_max_bytes } = Places::default() else {
            panic!("a log in a file")
        };
        let defaults = [
            (STATE_DIR, state.display().to_string()),
            (LOG, log.display().to_string()),
            (LOG_MAX_BYTES, log_max_bytes.to_string()),
            (EXCLUDE_NAMESPACES, mesh::pod::EXCLUDED_NAMESPACES.join(", ")),
            (super::TIMEOUT, format!("{TIMEOUT:?}")),
        ];
        for (name, default) in defaults {
            let key = KEYS.iter().find(|key| key.name == name).expect("a key");
            assert!(key.help.contains(&format!("[default: {default}]")), "{name}");
        }
    }
}
