//! The configuration of a cluster: the three documents of Istio's ConfigMaps, parsed once.

mod injector;
pub(crate) mod selector;

pub use crate::mesh_config::{IstioValues, MeshConfig, Native, ProxyReadinessProbe, ProxyValues};

use crate::decision::{InjectionPolicy, InjectionRules};
use crate::mesh_config::{camel, default_mesh, default_values};
use crate::template::{BuiltIn, InjectionTemplate};
use ::mesh::data::document::mapping;
use ::mesh::{InputProblem, Problems};
use mesh::settings::nearest_value;
use serde_json::Value;
use std::collections::BTreeMap;

/// A document and its name in problems: a file, or a key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigurationText {
    pub name: String,
    pub text: String,
}

impl ConfigurationText {
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned() }
    }
}

/// Istio's defaults apply to absent documents.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// `config` of the ConfigMap `istio-sidecar-injector`: policy, templates, selectors.
    pub config: Option<ConfigurationText>,
    /// `values` of the same ConfigMap: the input of the templates.
    pub values: Option<ConfigurationText>,
    /// `mesh` of the ConfigMap `istio`: MeshConfig.
    pub mesh: Option<ConfigurationText>,
}

#[derive(Clone, Debug)]
pub struct Configuration {
    pub rules: InjectionRules,
    /// Templates for a pod whose annotations name none.
    pub default_templates: Vec<String>,
    /// Templates by name, including built-in ones that `config` does not override.
    pub templates: BTreeMap<String, InjectionTemplate>,
    pub aliases: BTreeMap<String, Vec<String>>,
    pub injected_annotations: BTreeMap<String, String>,
    pub values: IstioValues,
    pub mesh: MeshConfig,
    pub warnings: Vec<String>,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            rules: InjectionRules {
                policy: Some(InjectionPolicy::Enabled),
                never: Vec::new(),
                always: Vec::new(),
            },
            default_templates: vec!["sidecar".to_owned()],
            templates: BuiltIn::ALL
                .map(|one| (one.name().to_owned(), InjectionTemplate::BuiltIn(one)))
                .into(),
            aliases: BTreeMap::new(),
            injected_annotations: BTreeMap::new(),
            values: IstioValues::default(),
            mesh: MeshConfig::default(),
            warnings: Vec::new(),
        }
    }
}

impl Configuration {
    pub fn read(texts: &Texts) -> Result<Self, Problems> {
        let (configuration, problems) = Self::read_in_part(texts);
        Problems::check(problems).map(|()| configuration)
    }

    /// Parses the valid parts and returns the documents' problems. A configuration with problems only serves to find more.
    pub fn read_in_part(texts: &Texts) -> (Self, Vec<InputProblem>) {
        let mut problems = Vec::new();
        let mut tree = |text: &Option<ConfigurationText>| -> Option<Value> {
            of(text.as_ref()?).map_err(|Problems(found)| problems.extend(found)).ok()
        };
        let (config, values, mesh) = (tree(&texts.config), tree(&texts.values), tree(&texts.mesh));
        let mut read = Self::default();
        // An unreadable document has no other problems.
        if let (Some(text), Some(config)) = (&texts.config, &config) {
            problems.extend(read.take_config(&text.name, config));
        }
        let empty = Value::Object(serde_json::Map::new());
        let [values, mesh] = [&values, &mesh].map(|tree| tree.as_ref().unwrap_or(&empty));
        let [values_name, mesh_name] = [(&texts.values, "values"), (&texts.mesh, "mesh")]
            .map(|(text, default)| text.as_ref().map_or(default, |text| text.name.as_str()));
        compare(values_name, "", values, default_values(), &mut read.warnings);
        let mut known = default_mesh().clone();
        // ProxyConfig has its own check.
        known["defaultConfig"] = Value::Null;
        compare(mesh_name, "", &camel(mesh), &known, &mut read.warnings);
        let (values, of_values) = IstioValues::read(values_name, values);
        let (mesh, of_mesh, notes) = MeshConfig::read(mesh_name, mesh);
        problems.extend(of_values.into_iter().chain(of_mesh));
        read.warnings.extend(notes);
        (Self { values, mesh, ..read }, problems)
    }

    pub(crate) fn known_names(&self) -> String {
        self.templates.keys().chain(self.aliases.keys()).cloned().collect::<Vec<_>>().join(", ")
    }

    /// The default templates with aliases resolved.
    pub fn defaults(&self) -> Vec<&str> {
        let members = |name| self.aliases.get(name).map_or(std::slice::from_ref(name), Vec::as_slice);
        self.default_templates.iter().flat_map(members).map(String::as_str).collect()
    }
}

fn of(text: &ConfigurationText) -> Result<Value, Problems> {
    let document = mapping(&text.name, &text.text)?;
    if let (Some(_), Some(kind)) = (document["apiVersion"].as_str(), document["kind"].as_str()) {
        let problem = format!(
            "is a Kubernetes object, {kind}; expected the configuration itself, as in Istio's ConfigMap"
        );
        return Err(Problems(vec![InputProblem::of(&text.name, problem)]));
    }
    Ok(document)
}

fn compare(name: &str, path: &str, given: &Value, known: &Value, warnings: &mut Vec<String>) {
    let (Value::Object(given), Value::Object(known)) = (given, known) else { return };
    for (key, value) in given {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match known.get(key) {
            // Kubernetes' fields, not Istio's settings.
            Some(_) if key == "resources" => {}
            Some(known) => compare(name, &path, value, known, warnings),
            None => {
                let names = known.keys().map(String::as_str);
                let absent: Vec<&str> = names.filter(|name| !given.contains_key(*name)).collect();
                let near = nearest_value(key, &absent);
                warnings.extend(
                    near.map(|near| format!("{name}: {path} is an unknown setting; did you mean {near}?")),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(values: &Value, mesh: &Value, expected: &[&str]) {
        let text = |name, value: &Value| Some(ConfigurationText::new(name, &value.to_string()));
        let texts = Texts { config: None, values: text("file", values), mesh: text("file", mesh) };
        assert_eq!(Configuration::read(&texts).expect("good texts").warnings, expected);
    }

    #[test]
    fn near_misses_of_names_are_reported() {
        let none = json!({});
        let given = json!({"globl": {}, "global": {"hubb": "x", "proxy": {"imge": "x"}}});
        let expected = [
            "file: global.hubb is an unknown setting; did you mean hub?",
            "file: global.proxy.imge is an unknown setting; did you mean image?",
        ];
        check(&given, &none, &expected);
        let globl = "file: globl is an unknown setting; did you mean global?";
        check(&json!({"globl": {}}), &none, &[globl]);
        let given = json!({"defaultConfg": {}, "root_namespac": "x"});
        let expected = [
            "file: defaultConfg is an unknown setting; did you mean defaultConfig?",
            "file: rootNamespac is an unknown setting; did you mean rootNamespace?",
        ];
        check(&none, &given, &expected);
    }

    #[test]
    fn settings_of_other_programs_are_not_reported() {
        let values = json!({
            "defaultRevision": "", "revisionTags": [], "experimental": {}, "ownerName": "", "profile": "demo",
            "global": {"configValidation": true, "istiod": {}, "jwtPolicy": "", "networkPolicy": {}, "platform": "",
                "omitSidecarInjectorConfigMap": false, "tracer": {}, "waypoint": {}, "remotePilotAddress": "",
                "proxy": {"autoInject": "enabled", "enableCoreDump": false, "seccompProfile": {"type": "x"},
                    "resources": {"limits": {}}}},
            "pilot": {"env": {"EN": "1"}, "tag": "", "hub": "", "cpu": {}, "cni": {"enabled": false}},
            "guard": {"image": "x"},
        });
        let mesh = json!({"accessLogFile": "", "enableAutoMtls": true, "ingressSelector": "", "trustDomainAliases": [],
            "tcpKeepalive": {}, "proxyHttpPort": 0, "extensionProviders": [], "defaultProviders": {}, "ca": {}});
        check(&values, &mesh, &[]);
    }
}
