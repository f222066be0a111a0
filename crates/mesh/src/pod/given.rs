//! Settings of a pod, and faults found before parsing.

use crate::sources::{Given, PodOrigin, Raw, Source};
use crate::{
    InputProblem, Problems, data::reader::values, istio::annotations::PROXY_CONFIG, settings::Setting,
    settings::mapping::VARIABLES,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenSettings {
    pub raw: Raw,
    faults: Vec<SettingFault>,
}

/// A problem, unless another layer gives the setting.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SettingFault {
    setting: Option<Setting>,
    source: Source,
    item: Option<String>,
    text: String,
}

impl GivenSettings {
    /// Names the pod in problems; an empty title names none, for problems that many pods share.
    #[must_use]
    pub fn of_pod(self, pod: impl Into<PodOrigin>) -> Self {
        Self { raw: self.raw.of_pod(pod), ..self }
    }

    pub(crate) fn set(&mut self, setting: Setting, value: impl Into<String>, source: Source) {
        let given = Given { value: value.into(), source };
        self.raw = Raw::of([(setting, given)]).over(std::mem::take(&mut self.raw));
    }

    pub(crate) fn add_items(&mut self, setting: Setting, items: &[&str]) {
        let Some(Given { value, source }) = self.raw.get(setting).cloned() else { return };
        let own = value.split(',').map(str::trim).filter(|item| !item.is_empty());
        let mut seen = BTreeSet::new();
        let all: Vec<&str> = own.chain(items.iter().copied()).filter(|item| seen.insert(*item)).collect();
        self.set(setting, all.join(","), source);
    }

    pub(super) fn fault(
        &mut self,
        setting: Option<Setting>,
        source: Source,
        item: Option<&str>,
        text: impl Into<String>,
    ) {
        self.faults.push(SettingFault { setting, source, item: item.map(str::to_owned), text: text.into() });
    }

    pub fn over(self, below: Self) -> Self {
        let counts =
            |fault: &SettingFault| fault.setting.is_none_or(|setting| self.raw.get(setting).is_none());
        let below_faults = below.faults.into_iter().filter(counts);
        let faults = self.faults.into_iter().chain(below_faults).collect();
        Self { raw: self.raw.over(below.raw), faults }
    }

    pub(crate) fn add_problems(&mut self, problems: Vec<InputProblem>) {
        let of_pod = |InputProblem { name, item, text, .. }| SettingFault {
            setting: None,
            source: Source::Field(name),
            item,
            text,
        };
        self.faults.extend(problems.into_iter().map(of_pod));
    }

    pub fn problems(&self) -> Vec<InputProblem> {
        Problems::first(self.faults.iter().map(|SettingFault { source, item, text, .. }| {
            InputProblem::about(&self.raw.named(source), item.as_deref(), text)
        }))
    }

    /// Reads the capture settings of a pod's ProxyConfig, if any; the injector reports its other problems. Fields may have
    /// JSON or Protocol Buffers names.
    pub(super) fn read_proxy_config(&mut self, annotations: &BTreeMap<String, String>) {
        let Some(text) = annotations.get(PROXY_CONFIG) else { return };
        let config = match values(PROXY_CONFIG, text) {
            Ok(documents) => documents.into_iter().next().unwrap_or_default(),
            Err(problems) => return self.add_problems(problems.0),
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
                Value::String(text) => self.set(setting, text, source),
                other => {
                    let text = "is not a string, so Istio refuses the ProxyConfig; quote it";
                    self.fault(Some(setting), source, Some(&other.to_string()), text);
                }
            }
        }
    }
}

impl From<Raw> for GivenSettings {
    fn from(raw: Raw) -> Self {
        Self { raw, ..Self::default() }
    }
}
