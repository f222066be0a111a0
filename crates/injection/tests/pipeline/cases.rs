//! The manifests of `tests/pods`: what is known around a pod, the configuration, and the pod.

use injection::configuration::{ConfigurationText, Texts};
use injection::{AdmissionContext, Configuration, InjectionOutcome, Namespace, Workload, inject, path};
use mesh::Problems;
use mesh::pod::values;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// A case.
pub(crate) struct Case {
    pub(crate) file: PathBuf,
    /// Before that, the pod is injected with this configuration.
    before: Option<Setup>,
    setup: Setup,
    written: Value,
}

/// A configuration and what is known around a pod. Its policy is to inject, where it does not say.
pub(crate) struct Setup {
    pub(crate) configuration: Configuration,
    pub(crate) admission: AdmissionContext,
}

impl Case {
    /// All of them.
    pub(crate) fn all() -> &'static [Self] {
        static CASES: LazyLock<Vec<Case>> = LazyLock::new(Case::read_all);
        &CASES
    }

    fn read_all() -> Vec<Self> {
        let mut files = manifests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pods"));
        files.sort();
        assert!(files.len() >= 40, "manifests have got lost");
        files.into_iter().map(Self::read).collect()
    }

    fn read(file: PathBuf) -> Self {
        let name = file.display().to_string();
        let text = fs::read_to_string(&file).expect("UTF-8");
        let documents = values(&name, &text).expect("YAML");
        let [head, pod] = &documents[..] else { panic!("{name}: two documents") };
        let known = ["about", "before", "config", "values", "mesh", "namespace", "path", "native"];
        let head = head.as_object().expect("a mapping");
        let unknown: Vec<&String> = head.keys().filter(|key| !known.contains(&key.as_str())).collect();
        assert!(unknown.is_empty() && head.contains_key("about"), "{name}: {unknown:?}");
        let before = head.get("before").map(|before| Setup::read(before.as_object().expect("a mapping")));
        Self { before, setup: Setup::read(head), written: pod.clone(), file }
    }

    /// The pod that is injected.
    pub(crate) fn pod(&self) -> Value {
        match &self.before {
            None => self.written.clone(),
            Some(before) => match before.inject(&self.written).expect("good before") {
                InjectionOutcome::Injected(injected) => injected.pod,
                InjectionOutcome::Skipped(decision) => panic!("{}: {decision:?}", self.file.display()),
            },
        }
    }

    /// The pod as its user wrote it.
    pub(crate) fn written(&self) -> &Value {
        &self.written
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }
}

impl Setup {
    /// Istio's defaults, in a namespace of no name.
    pub(crate) fn plain() -> Self {
        Self::read(&Map::new())
    }

    pub(crate) fn read(head: &Map<String, Value>) -> Self {
        let mut head = head.clone();
        if let Some(config) = head.get_mut("config").and_then(Value::as_object_mut) {
            config.entry("policy").or_insert("enabled".into());
        }
        let texts = ["config", "values", "mesh"].map(|key| head.get(key).map(ToString::to_string));
        let [config, values, mesh] = &texts;
        let text = |name, text: &'static str| ConfigurationText { name, text };
        let leaked = |name, given: &Option<String>| given.clone().map(|given| text(name, given.leak()));
        let texts = Texts {
            config: leaked("config", config),
            values: leaked("values", values),
            mesh: leaked("mesh", mesh),
        };
        let configuration = Configuration::read(&texts).expect("a good configuration");
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
        let variables = head.get("path").and_then(Value::as_str).map(path::variables).unwrap_or_default();
        let native_sidecars = head.get("native").is_some_and(|native| *native == true);
        Self {
            configuration,
            admission: AdmissionContext { namespace, workload: None::<Workload>, variables, native_sidecars },
        }
    }

    pub(crate) fn inject(&self, pod: &Value) -> Result<InjectionOutcome, Problems> {
        inject(pod, &self.admission, &self.configuration)
    }
}

/// The manifests of a folder.
pub(crate) fn manifests(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the manifests").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "yaml" || end == "json")).collect()
}
