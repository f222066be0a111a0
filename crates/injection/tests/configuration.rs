//! Parses a configuration: Istio's defaults, documents of its ConfigMaps, and all errors together, in the cases of
//! `configuration.txt`, whose problems and warnings `UPDATE_GOLDENS=1` writes.

use injection::Configuration;
use injection::configuration::{ConfigurationText, Native, Texts};
use injection::decision::InjectionPolicy;
use mesh::Setting;
use serde_json::json;

fn read(config: &str, values: &str, mesh: &str) -> Result<Configuration, String> {
    let text = |name, text| Some(ConfigurationText::new(name, text));
    let texts =
        Texts { config: text("config", config), values: text("values", values), mesh: text("mesh", mesh) };
    Configuration::read(&texts).map_err(|problems| problems.to_string())
}

/// Values with a policy, which Istio's chart always writes.
fn read_values(values: &str) -> Configuration {
    read("policy: enabled", values, "").expect("good texts")
}

#[test]
fn an_empty_configuration_has_istios_defaults() {
    let of_nothing = Configuration::read(&Texts::default()).expect("empty input is valid");
    for configuration in [Configuration::default(), of_nothing, read_values(""), read_values("global: ~")] {
        let Configuration { rules, default_templates, values, mesh, warnings, .. } = configuration;
        assert_eq!(rules.policy, Some(InjectionPolicy::Enabled));
        assert_eq!(default_templates, ["sidecar"]);
        assert_eq!((values.hub.as_str(), values.tag.as_str()), ("istio", "latest"));
        assert_eq!((values.proxy.image.as_str(), values.init_image.as_str()), ("proxyv2", "proxyv2"));
        assert_eq!(values.ca_address, "istiod.istio-system.svc:15012");
        assert_eq!(values.proxy.status_port, Some(15020));
        assert_eq!(values.proxy.capture[&Setting::ServiceCidr], "*");
        assert_eq!(values.proxy.resources["limits"]["memory"], "1024Mi");
        assert_eq!(values.proxy.startup_failures, Some(600));
        assert_eq!((values.native, values.has_plugin), (Native::Auto, false));
        assert!(!values.rewrite_probes && !mesh.merges_metrics, "both need Istio's agent");
        assert_eq!((mesh.outbound_port, mesh.inbound_port), (15001, 15006));
        assert_eq!(mesh.proxy_config()["interceptionMode"], "REDIRECT");
        assert_eq!(warnings, Vec::<String>::new());
    }
}

#[test]
fn values_are_typed_whether_json_or_yaml() {
    let values = read_values(
        r#"{"global": {"hub": "registry.example/istio", "tag": 1.3, "imagePullPolicy": "Never",
            "imagePullSecrets": ["one"], "proxy": {"statusPort": "0", "resources": {"limits": {"cpu": 2}},
            "includeIPRanges": "10.1.2.3/8,fd00::/8", "excludeInboundPorts": 80, "startupProbe": {"enabled": false}}},
            "pilot": {"cni": {"enabled": true, "provider": "multus"}, "env": {"ENABLE_NATIVE_SIDECARS": true}},
            "revision": "canary"}"#,
    )
    .values;
    assert_eq!((values.hub.as_str(), values.tag.as_str()), ("registry.example/istio", "1.3"));
    assert_eq!(values.pull_policy, Some("Never"));
    assert_eq!(values.pull_secrets, ["one"]);
    assert_eq!(values.proxy.status_port, None);
    assert_eq!(values.proxy.resources, json!({"limits": {"cpu": 2}}), "given resources replace all defaults");
    let capture = &values.proxy.capture;
    assert_eq!(capture[&Setting::ServiceCidr], "10.1.2.3/8,fd00::/8", "host bits are kept");
    assert_eq!(capture[&Setting::InboundPortsExclude], "80");
    assert_eq!(values.proxy.startup_failures, None);
    assert!(values.has_plugin && values.has_multus);
    assert_eq!(values.native, Native::Always);
    assert_eq!(values.ca_address, "istiod-canary.istio-system.svc:15012");
    assert_eq!(values.raw["global"]["proxy"]["clusterDomain"], "cluster.local", "other defaults remain");
    let old = "istio_cni: {enabled: true}\nglobal: {proxy: {excludeOutboundIPRanges: 10.0.0.0/8}}";
    let old = read_values(old).values;
    assert!(old.has_plugin && old.proxy.capture[&Setting::ServiceExcludeCidr] == "10.0.0.0/8");
}

#[test]
fn a_mesh_is_merged_field_by_field() {
    let mesh = "
proxy_listen_port: 16001
enablePrometheusMerge: true
inboundTrafficPolicy: {mode: LOCALHOST}
defaultConfig:
  interception_mode: TPROXY
  tracingServiceName: CANONICAL_NAME_ONLY
  proxyMetadata: {A: '1'}
";
    let configuration = read("policy: disabled", "", mesh).expect("good texts");
    let mesh = &configuration.mesh;
    assert_eq!((mesh.outbound_port, mesh.inbound_port, mesh.merges_metrics), (16001, 15006, true));
    assert!(mesh.is_inbound_local);
    let config = mesh.proxy_config();
    assert_eq!(config["interceptionMode"], "TPROXY");
    assert_eq!((&config["serviceCluster"], &config["statusPort"]), (&json!(null), &json!(15020)));
    assert_eq!(configuration.warnings, Vec::<String>::new());
}

#[test]
fn unreadable_documents_have_one_problem() {
    let text = ConfigurationText::new("config", "policy: [");
    let texts = Texts { config: Some(text), ..Texts::default() };
    let (configuration, problems) = Configuration::read_in_part(&texts);
    assert_eq!((problems.len(), configuration.warnings), (1, Vec::new()));
    assert_eq!(configuration.rules.policy, Some(InjectionPolicy::Enabled));
}

/// A case has three documents: config, values and mesh.
fn shown(case: &str) -> String {
    let mut texts = case.split("---\n");
    let [config, values, mesh] = [(); 3].map(|()| texts.next().unwrap_or_default());
    match read(config, values, mesh) {
        Err(problems) => format!("{problems}\n"),
        Ok(Configuration { rules, warnings, .. }) => {
            let warnings: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
            format!("{warnings}{rules:#?}\n")
        }
    }
}

#[test]
fn problems_and_warnings_are_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configuration.txt");
    testkit::sections::answers(file, ", read", shown);
}
