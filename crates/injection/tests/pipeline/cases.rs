//! The manifests of `tests/pods`: the context of a pod, the configuration, and the pod, in a file for each subject.

use crate::support;
use injection::{AdmissionContext, Configuration, InjectionOutcome, Namespace, inject};
use mesh::Problems;
use mesh::pod::values;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

pub(crate) struct Case {
    /// The case's file; `text` is its section.
    pub(crate) file: PathBuf,
    pub(crate) name: String,
    pub(crate) text: String,
    /// Setup of an earlier injection of the pod.
    before: Option<Setup>,
    setup: Setup,
    written: Value,
}

/// Without a policy in the configuration, pods are injected.
pub(crate) struct Setup {
    pub(crate) configuration: Configuration,
    pub(crate) admission: AdmissionContext,
}

impl Case {
    pub(crate) fn all() -> &'static [Self] {
        static CASES: LazyLock<Vec<Case>> = LazyLock::new(Case::read_all);
        &CASES
    }

    fn read_all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pods");
        let mut found = Vec::new();
        for file in files(&folder, &["txt"]) {
            let inputs =
                testkit::sections::read(&file).into_iter().filter(|(name, _)| name.ends_with(".yaml"));
            found.extend(inputs.map(|(name, text)| Self::read(file.clone(), name, text)));
        }
        assert!(found.len() >= 71, "manifests are missing");
        found
    }

    fn read(file: PathBuf, name: String, text: String) -> Self {
        let documents = values(&name, &text).expect("YAML");
        let [head, pod] = &documents[..] else { panic!("{name}: two documents") };
        let known = ["about", "before", "config", "values", "mesh", "namespace", "path", "native"];
        let head = head.as_object().expect("a mapping");
        let unknown: Vec<&String> = head.keys().filter(|key| !known.contains(&key.as_str())).collect();
        assert!(unknown.is_empty() && head.contains_key("about"), "{name}: {unknown:?}");
        let before = head.get("before").map(|before| Setup::read(before.as_object().expect("a mapping")));
        Self { before, setup: Setup::read(head), written: pod.clone(), file, name, text }
    }

    pub(crate) fn pod(&self) -> Value {
        match &self.before {
            None => self.written.clone(),
            Some(before) => match before.inject(&self.written).expect("good before") {
                InjectionOutcome::Injected(injected) => injected.pod,
                InjectionOutcome::Skipped(decision) => panic!("{}: {decision:?}", self.name),
            },
        }
    }

    pub(crate) fn written(&self) -> &Value {
        &self.written
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }
}

impl Setup {
    /// Istio's defaults in a namespace without a name.
    pub(crate) fn plain() -> Self {
        Self::read(&Map::new())
    }

    pub(crate) fn read(head: &Map<String, Value>) -> Self {
        let mut head = head.clone();
        if let Some(config) = head.get_mut("config").and_then(Value::as_object_mut) {
            config.entry("policy").or_insert("enabled".into());
        }
        let [config, values, mesh] = ["config", "values", "mesh"]
            .map(|key| head.get(key).map(ToString::to_string).unwrap_or_default());
        let configuration = support::read(&config, &values, &mesh).expect("a good configuration");
        let namespace = &head.get("namespace").cloned().unwrap_or_default();
        let pairs = |key: &str| -> BTreeMap<String, String> {
            let pairs = namespace.get(key).and_then(Value::as_object).into_iter().flatten();
            pairs.map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned())).collect()
        };
        let namespace = Namespace {
            name: namespace["name"].as_str().unwrap_or_default().to_owned(),
            labels: pairs("labels"),
            annotations: pairs("annotations"),
        };
        let variables = head
            .get("path")
            .and_then(Value::as_str)
            .map(injection::admission::path_variables)
            .unwrap_or_default();
        let native_sidecars = head.get("native").is_some_and(|native| *native == true);
        Self {
            configuration,
            admission: AdmissionContext {
                namespace,
                variables,
                native_sidecars,
                ..AdmissionContext::default()
            },
        }
    }

    pub(crate) fn inject(&self, pod: &Value) -> Result<InjectionOutcome, Problems> {
        inject(pod, &self.admission, &self.configuration)
    }
}

pub(crate) fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let ends = |path: &PathBuf| path.extension().is_some_and(|end| endings.iter().any(|known| end == *known));
    let mut found: Vec<PathBuf> = entries.filter(ends).collect();
    found.sort();
    found
}
