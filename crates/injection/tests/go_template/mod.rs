//! Templates in Go's language, filled for pods.

mod functions;
mod releases;
mod safety;
mod trial;
mod world;

use self::world::World;
use serde_json::json;

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

/// Ways in which templates for pods are mostly written.
const IDIOMS: &str = r#"
{{- define "limits" }}
  {{- if or (isset .ObjectMeta.Annotations `example/cpu`) (isset .ObjectMeta.Annotations `example/memory`) }}
      limits:
        {{ if (isset .ObjectMeta.Annotations `example/cpu`) -}}
        cpu: "{{ index .ObjectMeta.Annotations `example/cpu` }}"
        {{ end }}
  {{- else }}
    {{- if .Values.global.proxy.resources }}
      {{ toYaml .Values.global.proxy.resources | indent 6 }}
    {{- end }}
  {{- end }}
{{- end }}
{{ $transparent := (eq (annotation .ObjectMeta `example/mode` .ProxyConfig.InterceptionMode) `TPROXY`) }}
{{- $native := ne (index .ObjectMeta.Annotations `example/native` | default (printf "%t" .NativeSidecars)) "false" }}
{{- $hold := and
    (or .ProxyConfig.HoldApplicationUntilProxyStarts.GetValue .Values.global.proxy.hold)
    (not $native) }}
{{- $names := list }}
{{- range $index, $container := .Spec.Containers }}{{ if not (eq $container.Name "log") }}{{ $names = append $names $container.Name }}{{end}}{{- end}}
metadata:
  labels:
    name: {{ index .ObjectMeta.Labels `example/name` | default (index .ObjectMeta.Labels `app`) | default .DeploymentMeta.Name | trunc 63 | trimSuffix "-" | quote }}
  annotations: {
    {{- if ge (len $names) 1 }}
    first: "{{ index $names 0 }}",
    {{- end }}
    {{ with annotation .ObjectMeta `example/ports` `` }}ports: "{{.}}",{{ end }}
  }
spec:
  {{- /* The one that native sidecars are in. */}}
  {{ if $native }}initContainers{{ else }}containers{{ end }}:
  - name: proxy
    args:
    - {{ .MeshConfig.ProxyListenPort | default "15001" | quote }}
    - --level={{ annotation .ObjectMeta `example/level` "info" }}
  {{- if $hold }}
    lifecycle: {}
  {{- else if $transparent }}
    user: 0
  {{- end }}
    env:
    - name: PORTS
      value: |-
        [
        {{- $first := true }}
        {{- range $index1, $c := .Spec.Containers }}
          {{- range $index2, $p := $c.Ports }}
            {{if not $first}},{{end}}{{ structToJSON $p }}
            {{- $first = false }}
          {{- end}}
        {{- end}}
        ]
    - name: PROXY_CONFIG
      value: |
             {{ protoToJSON .ProxyConfig }}
    {{- range $key, $value := .ProxyConfig.ProxyMetadata }}
    - name: {{ $key }}
      value: "{{ $value }}"
    {{- end }}
    {{- if eq ((.Values.pilot).env).PILOT_FLAG true }}
    flag: on
    {{- end }}
    labels:
      {{- toJsonMap
        .ObjectMeta.Labels
        (strdict
          "kind" (toLower .TypeMeta.Kind)
        ) | nindent 6 }}
    resources:
  {{ template "limits" . }}
"#;

#[test]
fn templates_are_filled_as_they_are_mostly_written() {
    let world = World::new();
    let mut expected = json!({
        "metadata": {"labels": {"name": "web"}, "annotations": {"first": "web"}},
        "spec": {"containers": [{
            "name": "proxy",
            "args": ["15001", "--level=info"],
            "env": [
                {"name": "PORTS", "value": "[\n    {\"containerPort\":80}\n    ,{\"containerPort\":53,\"protocol\":\"UDP\"}\n    \
                                            ,{\"name\":\"http\",\"containerPort\":90}\n]"},
                {"name": "PROXY_CONFIG",
                 "value": "{\"discoveryAddress\":\"istiod.mesh.svc:15012\",\"proxyMetadata\":{\"A\":\"1\"}}\n"},
                {"name": "A", "value": "1"},
            ],
            "flag": true,
            "labels": {"app": "web", "kind": "deployment"},
            "resources": {"limits": {"cpu": "2"}},
        }]},
    });
    assert_eq!(world.render(IDIOMS), Ok(expected.clone()));
    let mut world = World::annotated("example/mode", "TPROXY");
    for (name, value) in [("example/cpu", "3"), ("example/ports", "80,90"), ("example/native", "true")] {
        world.pod["metadata"]["annotations"][name] = value.into();
    }
    expected["metadata"]["annotations"]["ports"] = "80,90".into();
    let mut proxy = expected["spec"]["containers"][0].take();
    proxy["user"] = 0.into();
    proxy["resources"]["limits"]["cpu"] = "3".into();
    expected["spec"] = json!({"initContainers": [proxy]});
    assert_eq!(world.render(IDIOMS), Ok(expected));
}
