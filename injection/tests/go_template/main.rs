//! Templates in Go's language, filled for pods.

mod functions;
mod safety;
mod world;

use serde_json::json;
use world::World;

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
