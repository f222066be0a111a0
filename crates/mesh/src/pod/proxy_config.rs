//! A pod's ProxyConfig (`proxy.istio.io/config`), as far as it decides about capture: the mode of interception, and variables that
//! the injector gives the proxy. What else is wrong with it is the injector's to report.

use super::given::GivenSettings;
use super::values::values;
use crate::istio::annotations::PROXY_CONFIG;
use crate::settings::Setting;
use crate::settings::mapping::VARIABLES;
use crate::sources::{Given, Source};
use serde_json::Value;
use std::collections::BTreeMap;

/// Reads the annotation, if there is one. Fields have their names of JSON or of the definition, as Protocol Buffers reads them.
pub(super) fn read(settings: &mut GivenSettings, annotations: &BTreeMap<String, String>) {
    let Some(text) = annotations.get(PROXY_CONFIG) else { return };
    let config = match values(PROXY_CONFIG, text) {
        Ok(documents) => documents.into_iter().next().unwrap_or_default(),
        Err(problems) => return settings.add_problems(problems.0),
    };
    let field = |json: &str, name: &str| config.get(json).or_else(|| config.get(name));
    let mode = field("interceptionMode", "interception_mode");
    let mode = mode.map(|mode| (Setting::InterceptionMode, "interceptionMode", mode));
    let variables = field("proxyMetadata", "proxy_metadata");
    let variable =
        |(name, setting): &(&'static str, Setting)| Some((*setting, *name, variables?.get(*name)?));
    for (setting, name, value) in mode.into_iter().chain(VARIABLES.iter().filter_map(variable)) {
        let source = Source::Field(format!("{PROXY_CONFIG}: {name}"));
        match value {
            Value::Null => {}
            Value::String(text) => settings.set(setting, text, source),
            other => {
                let text = "is not a text, so that Istio refuses the ProxyConfig; write it in quotes";
                settings.fault(Some(setting), source, Some(&other.to_string()), text);
            }
        }
    }
}

/// The mode of interception.
pub(super) fn mode(annotations: &BTreeMap<String, String>) -> Option<Given> {
    let mut settings = GivenSettings::default();
    read(&mut settings, annotations);
    settings.raw.get(Setting::InterceptionMode).cloned()
}
