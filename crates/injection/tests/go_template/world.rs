//! A pod with its context, and a template rendered for it.

use crate::support::read;
use injection::pipeline::Workload;
use injection::sidecar::Sidecar;
use injection::template::{TemplateContext, go};
use injection::{AdmissionContext, Configuration, Namespace};
use serde_json::{Value, json};

pub(crate) struct World {
    pub(crate) pod: Value,
    pub(crate) admission: AdmissionContext,
    pub(crate) sidecar: Sidecar,
    pub(crate) configuration: Configuration,
}

impl World {
    pub(crate) fn new() -> Self {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}, "annotations": {"note": "plain"}},
            "spec": {
                "serviceAccountName": "web",
                "containers": [
                    {"name": "web", "image": "web", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
                     "resources": {"limits": {"cpu": "0.1"}}},
                    {"name": "log", "ports": [{"containerPort": 90, "name": "http"}]},
                ],
            },
        });
        let namespace = Namespace { name: "shop".to_owned(), ..Namespace::default() };
        let workload = Workload {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
        };
        let admission =
            AdmissionContext { namespace, workload: Some(workload), ..AdmissionContext::default() };
        let values = json!({
            "revision": "",
            "global": {"proxy": {"resources": {"limits": {"cpu": "2"}}, "image": "proxyv2"}, "tag": 1.5, "list": ["b", "a", "b"]},
            "pilot": {"env": {"PILOT_FLAG": true, "COMPLIANCE_POLICY": "fips"}},
        });
        let mesh = json!({"proxyListenPort": 15001, "trustDomain": "cluster.local"});
        let mut configuration = Configuration::default();
        configuration.values.raw = values;
        configuration.mesh.raw = mesh;
        let mut sidecar =
            Sidecar::of(&pod, &admission, &configuration.values, &configuration.mesh).expect("a valid pod");
        sidecar.proxy_config = json!({"discoveryAddress": "istiod.mesh.svc:15012", "proxyMetadata": {"A": "1"}, "statusPort": 15020});
        sidecar.proxy_image = "hub/proxyv2:1".to_owned();
        sidecar.init_image = "hub/init:1".to_owned();
        Self { pod, admission, sidecar, configuration }
    }

    pub(crate) fn annotated(name: &str, value: &str) -> Self {
        let mut world = Self::new();
        world.pod["metadata"]["annotations"][name] = value.into();
        world
    }

    /// A world with merge patches of its `pod`, `values`, `mesh` and `proxyConfig`, and with `annotations`. With `meshText`,
    /// Istio's configuration with this mesh document is used.
    pub(crate) fn changed(changes: &Value) -> Self {
        let mut world = Self::new();
        if let Some(text) = changes["meshText"].as_str() {
            world.configuration = read("", "", text).expect("a mesh");
            world.sidecar.proxy_config = world.configuration.mesh.proxy_config().clone();
        }
        for (key, target) in [
            ("pod", &mut world.pod),
            ("values", &mut world.configuration.values.raw),
            ("mesh", &mut world.configuration.mesh.raw),
            ("proxyConfig", &mut world.sidecar.proxy_config),
        ] {
            json_patch::merge(target, changes.get(key).unwrap_or(&json!({})));
        }
        let annotations = changes["annotations"].as_object().into_iter().flatten();
        annotations.for_each(|(name, text)| world.pod["metadata"]["annotations"][name] = text.clone());
        world
    }

    pub(crate) fn context(&self) -> TemplateContext<'_> {
        let Self { pod, admission, sidecar, configuration } = self;
        TemplateContext { pod, admission, sidecar, values: &configuration.values, mesh: &configuration.mesh }
    }

    pub(crate) fn render(&self, text: &str) -> Result<Value, String> {
        let template = go::Template::read("template", text).map_err(|problems| problems.to_string())?;
        template.render(&self.context(), &mut Vec::new()).map_err(|problems| problems.to_string())
    }
}
