//! Templates in Go's language, filled for pods.

use injection::pipeline::Workload;
use injection::sidecar::Sidecar;
use injection::template::{Sight, go};
use injection::{Around, Configuration, Namespace};
use serde_json::{Value, json};

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
        let values = json!({
            "revision": "",
            "global": {"proxy": {"resources": {"limits": {"cpu": "2"}}, "image": "proxyv2"}, "tag": 1.5, "list": ["b", "a", "b"]},
            "pilot": {"env": {"PILOT_FLAG": true, "COMPLIANCE_POLICY": "fips"}},
        });
        let mesh = json!({"proxyListenPort": 15001, "trustDomain": "cluster.local"});
        let mut configuration = Configuration::default();
        configuration.values.raw = values;
        configuration.mesh.raw = mesh;
        let mut sidecar = Sidecar::of(&pod, &around, &configuration).expect("nothing is wrong with it");
        sidecar.proxy_config = json!({"discoveryAddress": "istiod.mesh.svc:15012", "proxyMetadata": {"A": "1"}, "statusPort": 15020});
        sidecar.proxy_image = "hub/proxyv2:1".to_owned();
        sidecar.init_image = "hub/init:1".to_owned();
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
