//! What the templates of Istio's releases ask for beyond the idioms that all have, each release by what it has that the one
//! before had not: templates that make the same calls, in words of their own.

use super::world::World;
use crate::support::read;
use serde_json::{Value, json};

fn check(release: &str, world: &World, template: &str, expected: &Value) {
    assert_eq!(world.render(template).as_ref(), Ok(expected), "{release}");
}

/// A world of which the values and the mesh say more.
fn world(values: &Value, mesh: &Value) -> World {
    let mut world = World::new();
    json_patch::merge(&mut world.configuration.values.raw, values);
    json_patch::merge(&mut world.configuration.mesh.raw, mesh);
    world
}

#[test]
fn networks_ports_and_metadata_are_as_in_1_27() {
    let template = "annotations: {\n  networks: '{{ appendMultusNetwork (index .ObjectMeta.Annotations `own/networks`) `default/cni` }}',\n  \
                    {{ with annotation .ObjectMeta `own/ranges` .Values.global.none }}ranges: \"{{.}}\",{{ end }}\n}\n\
                    args:\n- {{ .MeshConfig.ProxyListenPort | default \"15001\" | quote }}\n- {{ .ProxyUID | default \"1337\" | quote }}\n\
                    {{ if eq (index .ProxyConfig.ProxyMetadata \"A\") \"1\" }}- one{{ end }}\n{{ if .Values.global.nativeNftables -}}\n- nft\n{{ end -}}\n\
                    ports: |-\n  [\n  {{- range $i, $c := .Spec.Containers }}{{ range $j, $p := $c.Ports }}{{ structToJSON $p }} {{ end }}{{ end }}]\n\
                    config: |\n  {{ protoToJSON .ProxyConfig }}\n";
    let mut world = world(&json!({"global": {"nativeNftables": true, "none": ""}}), &json!({}));
    world.sidecar.proxy_config["concurrency"] = 4.into();
    let expected = json!({
        "annotations": {"networks": "default/cni"},
        "args": ["15001", "1337", "one", "nft"],
        "ports": "[{\"containerPort\":80} {\"containerPort\":53,\"protocol\":\"UDP\"} {\"name\":\"http\",\"containerPort\":90} ]",
        "config": "{\"discoveryAddress\":\"istiod.mesh.svc:15012\",\"concurrency\":4,\"proxyMetadata\":{\"A\":\"1\"}}\n",
    });
    check("1.27", &world, template, &expected);
}

#[test]
fn missing_values_are_read_in_1_28() {
    let template = "{{- if eq ((.Values.pilot).env).TRUST_BUNDLE true }}\na: b{{ .Values.global.bundle | default \"root\" }}\n{{- else }}\n\
                    a: {{ .Values.global.bundle | default \"ca\" }}\n{{- end }}\n{{- if eq .Values.gone nil }}\nb: {{ eq .Values.pilot nil }}\n{{- end }}\n";
    check(
        "1.28",
        &world(&json!({"pilot": {"env": {"TRUST_BUNDLE": true}}}), &json!({})),
        template,
        &json!({"a": "broot", "b": false}),
    );
    check(
        "1.28",
        &world(&json!({"pilot": {"env": null}}), &json!({})),
        template,
        &json!({"a": "ca", "b": false}),
    );
}

#[test]
fn spans_carry_the_service_from_1_30_on() {
    let template = "{{- with otelResourceAttributes .MeshConfig .ObjectMeta.Annotations .ObjectMeta.Labels .ObjectMeta.Namespace .Spec.Containers }}\n\
                    env: [{name: OTEL_RESOURCE_ATTRIBUTES, value: \"{{ . }}\"}]\n{{- end }}\n";
    check("1.30", &World::new(), template, &json!({}));
    let providers = json!([{"name": "otel", "opentelemetry": {"serviceAttributeEnrichment": "OTEL_SEMANTIC_CONVENTIONS"}}]);
    let mut world = world(&json!({}), &json!({"extensionProviders": providers}));
    let value = "service.namespace=shop,service.instance.id=shop.$(POD_NAME)";
    check("1.30", &world, template, &json!({"env": [{"name": "OTEL_RESOURCE_ATTRIBUTES", "value": value}]}));
    world.pod["spec"]["containers"] =
        json!([{"name": "web", "image": "web:2"}, {"name": "istio-proxy", "image": "auto"}]);
    let value = "service.namespace=shop,service.version=2,service.instance.id=shop.$(POD_NAME).web";
    check("1.30", &world, template, &json!({"env": [{"name": "OTEL_RESOURCE_ATTRIBUTES", "value": value}]}));
}

#[test]
fn methods_of_data_and_else_with_are_known_in_1_31() {
    let template = "{{- with .Values.gone }}\na: never\n{{- else with index .ObjectMeta.Labels `app` }}\na: {{ . }}\n{{- else }}\na: neither\n{{- end }}\n\
                    drain: [{{ .ProxyConfig.DrainDuration.Seconds }}, {{ .ProxyConfig.DrainDuration.GetSeconds }}, {{ .ProxyConfig.TerminationDrainDuration.AsDuration }}, {{ formatDuration .ProxyConfig.DrainDuration }}]\n\
                    longer: {{ gt .ProxyConfig.DrainDuration.AsDuration.Minutes 1.0 }}\n\
                    threads: [{{ .ProxyConfig.Concurrency.Value }}, {{ .ProxyConfig.Concurrency.GetValue }}, {{ .ProxyConfig.GetConcurrency.GetValue }}]\n\
                    labels: {{ toJSON .ObjectMeta.GetLabels }}\nname: {{ .ObjectMeta.GetName }}\n\
                    port: {{ .MeshConfig.GetProxyListenPort }}\ntracing: {{ .MeshConfig.GetDefaultConfig.GetTracing.GetZipkin.GetAddress | default `none` }}\n\
                    {{- with .ProxyConfig }}\nmode: {{ .GetInterceptionMode.String }}\n{{- end }}\n";
    let mut world = World::new();
    for (field, value) in [
        ("drainDuration", json!("90s")),
        ("terminationDrainDuration", json!("5s")),
        ("concurrency", json!(2)),
    ] {
        world.sidecar.proxy_config[field] = value;
    }
    let expected = json!({
        "a": "web", "drain": [90, 90, "5s", "1m30s"], "longer": true, "threads": [2, 2, 2], "labels": {"app": "web"},
        "name": "web-0", "port": 15001, "tracing": "none", "mode": "REDIRECT",
    });
    check("1.31", &world, template, &expected);
}

/// With mesh settings as Istio fills them in.
#[test]
fn defaults_of_the_mesh_are_there() {
    let mut world = World::new();
    world.configuration = injection::Configuration::default();
    world.sidecar.proxy_config = world.configuration.mesh.proxy_config().clone();
    let template = "a: [{{ .MeshConfig.ProxyListenPort }}, {{ .MeshConfig.ProxyInboundListenPort }}, {{ .MeshConfig.TrustDomain }}]\n\
                    b: [{{ .ProxyConfig.StatusPort }}, {{ .ProxyConfig.ProxyAdminPort }}, {{ .ProxyConfig.DrainDuration.Seconds }}]\n\
                    f: [\"{{ .ProxyConfig.MeshId }}\", {{ len .ProxyConfig.ProxyMetadata }}, {{ .MeshConfig.VerifyCertificateAtClient }}]\n\
                    c: {{ protoToJSON .ProxyConfig | quote }}\nd: {{ .MeshConfig.DefaultConfig.DiscoveryAddress }}\n";
    let expected = json!({
        "a": [15001, 15006, "cluster.local"], "b": [15020, 15000, 45], "c": "{}", "f": ["", 0, false], "d": "istiod.istio-system.svc:15012",
    });
    check("any", &world, template, &expected);
}

/// An extension provider that a text names replaces the default of its name, and others stay.
#[test]
fn providers_of_the_mesh_are_known_by_their_names() {
    let mut world = World::new();
    let mesh = "extensionProviders: [{name: otel, opentelemetry: {port: 4317}}, {name: envoy, envoyFileAccessLog: {path: /log}}]\n\
                defaultServiceExportTo: [.]\n";
    world.configuration = read("", "", mesh).expect("a mesh");
    let template = "names: [{{ range .MeshConfig.ExtensionProviders }}{{ .Name }}, {{ end }}]\n\
                    log: {{ (index .MeshConfig.ExtensionProviders 2).EnvoyFileAccessLog.Path }}\n\
                    to: [{{ index .MeshConfig.DefaultServiceExportTo 0 | quote }}, {{ index .MeshConfig.DefaultVirtualServiceExportTo 0 | quote }}]\n\
                    other: [{{ .MeshConfig.EnableAutoMtls.Value }}, {{ .MeshConfig.DnsRefreshRate.Seconds }}, {{ .MeshConfig.LocalityLbSetting.Enabled.GetValue }}]\n";
    let expected = json!({
        "names": ["prometheus", "stackdriver", "envoy", "otel"], "log": "/log", "to": [".", "*"], "other": [true, 60, true],
    });
    check("any", &world, template, &expected);
}
