//! The catalogue of scenarios, as tests read it.

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where the catalogue is.
pub(crate) fn folder() -> PathBuf {
    // The tests of the page are a package within.
    let above =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("rules/scenarios"));
    above.into_iter().find(|folder| folder.is_dir()).expect("the catalogue")
}

/// The folder of each scenario of Istio's sidecar, in order.
pub(crate) fn scenarios() -> Vec<PathBuf> {
    all().into_iter().filter(|folder| Case::read(folder).mesh().is_none()).collect()
}

/// The folder of each scenario, in order, whatever mesh it is for.
pub(crate) fn all() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).expect("the catalogue");
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    assert!(folders.len() > 30, "the catalogue has shrunk");
    folders
}

/// What a scenario says.
pub(crate) struct Case(Value);

impl Case {
    pub(crate) fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join("case.json")).expect("case.json");
        Self(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", folder.display())))
    }

    pub(crate) fn about(&self) -> &str {
        self.0["about"].as_str().expect("about")
    }

    /// The mesh that it is for, where that is not Istio's sidecar.
    pub(crate) fn mesh(&self) -> Option<&str> {
        self.0["mesh"].as_str()
    }

    /// The flags of its call, with the declared facts.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = self.strings("args");
        for (flag, key) in [("--pod-ips", "pod_ips"), ("--dns-servers", "dns_servers")] {
            flags.extend([flag.to_owned(), self.strings(key).join(",")]);
        }
        flags
    }

    /// The variables of its call.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let variables = self.0["env"].as_object().into_iter().flatten();
        variables.map(|(name, value)| (name.clone(), value.as_str().expect("a string").to_owned())).collect()
    }

    /// Pieces of text that its call writes to standard error.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.strings("warnings")
    }

    fn strings(&self, key: &str) -> Vec<String> {
        let items = self.0[key].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().map(|item| item.as_str().expect("a string").to_owned()).collect()
    }
}
