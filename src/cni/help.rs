//! The description of the network configuration in `sidecar-init cni --help`.

use super::protocol::{CniVersion, KEYS};

/// The text after the command's description.
pub(crate) fn help() -> String {
    let keys: String =
        KEYS.iter().map(|key| format!("  \"{}\": {}\n      {}\n", key.name, key.form, key.help)).collect();
    let versions = CniVersion::ALL.map(CniVersion::name).join(", ");
    format!("Keys of the network configuration:\n{keys}\nVersions of the specification: {versions}")
}
