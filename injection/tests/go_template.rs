//! Templates in Go's language, filled for pods.

use injection::configuration::{Mesh, Values};
use injection::decision::{Policy, Rules};
use injection::pipeline::Workload;
use injection::sidecar::{Init, Mode, Sidecar};
use injection::template::{Sight, go};
use injection::{Around, Configuration, Namespace};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is known around a pod, to be changed by tests.
struct World {
    pod: Value,
    around: Around,
    sidecar: Sidecar,
    configuration: Configuration,
}

impl World {
    fn new() -> Self {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web-0", "labels": {"app": "web"}, "annotations": {"note": "plain"}},
            "spec": {
                "serviceAccountName": "web",
                "containers": [
                    {"name": "web", "image": "web", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
                     "resources": {"limits": {"cpu": "1"}}},
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
        let around = Around { namespace, workload: Some(workload), ..Around::default() };
        let sidecar = Sidecar {
            mode: Mode::Redirect,
            init: Init::Capture,
            arguments: Vec::new(),
            proxy_config: json!({"discoveryAddress": "istiod.mesh.svc:15012", "proxyMetadata": {"A": "1"}, "statusPort": 15020}),
            proxy_uid: 1337,
            proxy_gid: 1337,
            status_port: Some(15020),
            native: false,
            hold: false,
            proxy_image: "hub/proxyv2:1".to_owned(),
            init_image: "hub/init:1".to_owned(),
            pull_policy: None,
            resources: json!({}),
            init_resources: json!({}),
            log_level: "default:info".to_owned(),
            proxy_log_level: None,
            proxy_component_log_level: None,
            log_as_json: false,
            domain: "cluster.local".to_owned(),
            cluster: String::new(),
            network: None,
            binds_low_ports: false,
        };
        let values = json!({
            "revision": "",
            "global": {"proxy": {"resources": {"limits": {"cpu": "2"}}, "image": "proxyv2"}, "tag": 1.5, "list": ["b", "a", "b"]},
            "pilot": {"env": {"PILOT_FLAG": true, "COMPLIANCE_POLICY": "fips"}},
        });
        let mesh = json!({"proxyListenPort": 15001, "trustDomain": "cluster.local"});
        let rules = Rules { policy: Some(Policy::Enabled), never: Vec::new(), always: Vec::new() };
        let configuration = Configuration {
            rules,
            default_templates: Vec::new(),
            templates: BTreeMap::new(),
            aliases: BTreeMap::new(),
            injected_annotations: BTreeMap::new(),
            values: Values { raw: values },
            mesh: Mesh { raw: mesh },
        };
        Self { pod, around, sidecar, configuration }
    }

    fn annotated(name: &str, value: &str) -> Self {
        let mut world = Self::new();
        world.pod["metadata"]["annotations"][name] = value.into();
        world
    }

    fn sight(&self) -> Sight<'_> {
        let Self { pod, around, sidecar, configuration } = self;
        Sight { pod, around, sidecar, configuration }
    }

    fn render(&self, text: &str) -> Result<Value, String> {
        let template = go::Template::read("template", text).map_err(|problems| problems.to_string())?;
        template.render(&self.sight()).map_err(|problems| problems.to_string())
    }
}

#[test]
fn data_have_the_names_of_go() {
    let text = r#"
a: {{ .ObjectMeta.Name }}/{{ .ObjectMeta.Namespace }}/{{ .ObjectMeta.Labels.app }}/{{ index .ObjectMeta.Labels `version` | default "latest" }}
b: [{{ range $i, $c := .Spec.Containers }}{{ if $i }}, {{ end }}{{ $c.Name }}{{ range $c.Ports }}-{{ .ContainerPort }}{{ end }}{{ end }}]
c: {{ .TypeMeta.APIVersion }}/{{ toLower .TypeMeta.Kind }}s/{{ .DeploymentMeta.Name }}
d: {{ .ProxyConfig.InterceptionMode.String }} {{ .ProxyConfig.ProxyMetadata.A }} {{ .ProxyConfig.StatusPort }}
e: {{ .MeshConfig.ProxyListenPort | default "15001" | quote }}
f: {{ .Values.global.tag }} {{ .Revision | default "default" }} {{ .NativeSidecars }} {{ .ProxyUID }}:{{ .ProxyGID }}
g: {{ .ProxyImage }} {{ .ProxyInitImage }} {{ .InboundTrafficPolicyMode }} {{ .CompliancePolicy }}
h: {{ if eq .Spec.ServiceAccountName "" }}none{{ else }}{{ .Spec.ServiceAccountName }}{{ end }}
i: {{ structToJSON (index .Spec.Containers 0).Ports | quote }}
j: {{ (index .Spec.Containers 0).Resources.Limits.cpu }}
k: {{ or .ProxyConfig.HoldApplicationUntilProxyStarts.GetValue .Values.global.proxy.hold | default "none" }}
l: {{ .ObjectMeta.GenerateName | quote }}
"#;
    let expected = json!({
        "a": "web-0/shop/web/latest",
        "b": ["web-80-53", "log-90"],
        "c": "apps/v1/deployments/web",
        "d": "REDIRECT 1 15020",
        "e": "15001",
        "f": "1.5 default false 1337:1337",
        "g": "hub/proxyv2:1 hub/init:1 passthrough fips",
        "h": "web",
        "i": r#"[{"containerPort":80},{"containerPort":53,"protocol":"UDP"}]"#,
        "j": 1,
        "k": "none",
        "l": "",
    });
    assert_eq!(World::new().render(text), Ok(expected));
}
