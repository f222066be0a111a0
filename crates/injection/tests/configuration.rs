//! Texts as configuration: Istio's defaults, its ConfigMap's words, and everything that can be wrong with them at once.

use injection::Configuration;
use injection::configuration::{ConfigurationText, InboundPolicy, Native, PullPolicy, Texts};
use injection::decision::{InjectionPolicy, Operator};
use mesh::sources::Wildcard;
use serde_json::json;

fn read(config: &str, values: &str, mesh: &str) -> Result<Configuration, String> {
    let text = |name, text| Some(ConfigurationText { name, text });
    let texts =
        Texts { config: text("config", config), values: text("values", values), mesh: text("mesh", mesh) };
    Configuration::read(&texts).map_err(|problems| problems.to_string())
}

/// With a policy, as Istio's chart always writes one.
fn read_values(values: &str) -> Configuration {
    read("policy: enabled", values, "").expect("good texts")
}

#[test]
fn an_empty_configuration_has_istios_defaults() {
    let of_nothing = Configuration::read(&Texts::default()).expect("no text has no problem");
    for configuration in [Configuration::default(), of_nothing, read_values(""), read_values("global: ~")] {
        let Configuration { rules, default_templates, values, mesh, warnings, .. } = configuration;
        assert_eq!(rules.policy, Some(InjectionPolicy::Enabled));
        assert_eq!(default_templates, ["sidecar"]);
        assert_eq!((values.hub.as_str(), values.tag.as_str()), ("istio", "latest"));
        assert_eq!((values.proxy.image.as_str(), values.init.image.as_str()), ("proxyv2", "proxyv2"));
        assert_eq!(values.ca_address, "istiod.istio-system.svc:15012");
        assert_eq!(values.proxy.status_port, Some(15020));
        assert_eq!(values.proxy.capture.include_networks, Wildcard::All);
        assert_eq!(values.proxy.resources["limits"]["memory"], "1024Mi");
        assert_eq!(values.proxy.startup_failures, Some(600));
        assert_eq!((values.native, values.cni.enabled), (Native::Auto, false));
        assert!(!values.rewrite_probes && !mesh.merges_metrics, "both need Istio's agent");
        assert_eq!((mesh.outbound_port, mesh.inbound_port), (15001, 15006));
        assert_eq!(mesh.proxy_config()["interceptionMode"], "REDIRECT");
        assert_eq!(warnings, Vec::<String>::new());
    }
}

#[test]
fn a_network_has_to_fit_into_a_label() {
    let shown = read("policy: enabled", "global: {network: a/b}", "").expect_err("a slash");
    assert!(shown.contains("global.network: \"a/b\" is not a label value"), "{shown}");
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
    assert_eq!(values.pull_policy.map(PullPolicy::name), Some("Never"));
    assert_eq!(values.pull_secrets, ["one"]);
    assert_eq!(values.proxy.status_port, None);
    assert_eq!(values.proxy.resources, json!({"limits": {"cpu": 2}}), "whoever gives resources gives all");
    let Wildcard::Items(networks) = &values.proxy.capture.include_networks else { panic!("two networks") };
    let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.1.2.3/8", "fd00::/8"], "host bits are kept");
    assert_eq!(values.proxy.capture.exclude_inbound, [80]);
    assert_eq!(values.proxy.startup_failures, None);
    assert!(values.cni.enabled && values.cni.multus);
    assert_eq!(values.native, Native::Always);
    assert_eq!(values.ca_address, "istiod-canary.istio-system.svc:15012");
    assert_eq!(values.raw["global"]["proxy"]["clusterDomain"], "cluster.local", "defaults are beneath");
    let old = "istio_cni: {enabled: true}\nglobal: {proxy: {excludeOutboundIPRanges: 10.0.0.0/8}}";
    let old = read_values(old).values;
    assert!(old.cni.enabled && old.proxy.capture.exclude_networks.len() == 1);
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
  nosuchfield: 1
  discoveryAdress: x
";
    let configuration = read("policy: disabled", "", mesh).expect("good texts");
    let mesh = &configuration.mesh;
    assert_eq!((mesh.outbound_port, mesh.inbound_port, mesh.merges_metrics), (16001, 15006, true));
    assert_eq!(mesh.inbound_policy, InboundPolicy::Localhost);
    let config = mesh.proxy_config();
    assert_eq!(config["interceptionMode"], "TPROXY");
    assert_eq!((&config["serviceCluster"], &config["statusPort"]), (&json!(null), &json!(15020)));
    assert_eq!(configuration.warnings.len(), 2, "{:?}", configuration.warnings);
    assert!(configuration.warnings[0].contains("did you mean discoveryAddress?"));
}

#[test]
fn selectors_are_those_of_kubernetes() {
    let config = "
policy: enabled
neverInjectSelector:
- matchLabels: {app: web}
  matchExpressions: [{key: example.com/tier, operator: NotIn, values: [a, b]}, {key: x, operator: Exists}]
- {}
- matchExpressions: [{key: x, operator: In, values: []}]
- matchExpressions: [{key: x, operator: Near}]
- matchLabels: {'-x': y}
- matchLabels: {x: 'a b'}
- [x]
- {matchLabels: {x: 1}, matchLabel: {y: z}}
alwaysInjectSelector: ~
";
    let configuration = read(config, "", "").expect("bad selectors only warn");
    assert_eq!(configuration.rules.never.len(), 2);
    let operators: Vec<&Operator> = configuration.rules.never[0].0.iter().map(|one| &one.operator).collect();
    let (a, b) = ("a".to_owned(), "b".to_owned());
    assert_eq!(
        operators,
        [&Operator::In(vec!["web".to_owned()]), &Operator::NotIn(vec![a, b]), &Operator::Exists]
    );
    assert_eq!(configuration.warnings.len(), 7, "{:#?}", configuration.warnings);
    assert!(configuration.warnings[1].starts_with("config: neverInjectSelector[2] never matches: "));
    assert!(
        configuration.warnings[6].starts_with("config: neverInjectSelector[7]: \"matchLabel\" is not part")
    );
}

#[test]
fn what_nobody_knows_warns_and_no_policy_injects_nothing() {
    let config = "defaultTemplate: [x]\ntemplate: old\naliases: {both: [sidecar, nosuch]}";
    let configuration = read(config, "", "").expect("only odd");
    assert_eq!(configuration.rules.policy, None);
    let shown = configuration.warnings.join("\n");
    assert!(shown.contains("config: defaultTemplate is not one of its keys"), "{shown}");
    assert!(shown.contains("did you mean defaultTemplates?"), "{shown}");
    assert!(shown.contains(r#"config: policy is """#), "{shown}");
    assert!(shown.contains(r#"config: aliases.both names "nosuch", which is not a template"#), "{shown}");
    let config = "policy: enabled\ndefaultTemplates: [both]\naliases: {both: [sidecar, nosuch]}";
    let shown = read(config, "", "").expect_err("it would refuse every pod");
    assert!(shown.contains(r#"config: aliases.both: "nosuch" is not a template, and"#), "{shown}");
}

#[test]
fn a_text_that_cannot_be_read_was_warned_of_as_an_empty_one() {
    let text = ConfigurationText { name: "config", text: "policy: [" };
    let texts = Texts { config: Some(text), ..Texts::default() };
    let (configuration, problems) = Configuration::read_in_part(&texts);
    assert_eq!((problems.len(), configuration.warnings), (1, Vec::new()));
    assert_eq!(configuration.rules.policy, Some(InjectionPolicy::Enabled));
}

#[test]
fn all_problems_come_at_once_and_each_has_its_path() {
    let config = "policy: [enabled]\ndefaultTemplates: [nosuch]\ntemplates: {one: 1, two: {sidecars: []}}\naliases: {a: 1}";
    let values = "
global:
  imagePullPolicy: Sometimes
  logging: 5
  logAsJson: maybe
  imagePullSecrets: [{name: x}]
  proxy:
    statusPort: 70000
    includeIPRanges: 1.1.1.1
    excludeInboundPorts: 80,,x
    readinessPeriodSeconds: -1
    resources: {limits: {cpu: lots}}
pilot: {env: {ENABLE_NATIVE_SIDECARS: perhaps}}
";
    let mesh =
        "proxyListenPort: 0\ndefaultConfig: {concurrency: many, proxyMetadata: {A: true}, statusPort: 0}";
    let shown = read(config, values, mesh).expect_err("bad texts");
    let lines: Vec<&str> = shown.lines().skip(1).map(str::trim).collect();
    for expected in [
        "config: policy: is a list; expected a string",
        "config: aliases.a: \"1\" is a number; expected a list of names of templates",
        "config: defaultTemplates: \"nosuch\" is neither a template nor an alias",
        "config: templates.one: is a number; expected a Go template as a string (see docs/templates.md)",
        "config: templates.two: is a mapping; expected a Go template as a string (see docs/templates.md)",
        "values: global.imagePullPolicy: \"Sometimes\" is none of those known; expected Always, IfNotPresent, Never",
        "values: global.logging: is not a mapping; expected one",
        "values: global.logAsJson: \"maybe\" is a string; expected true or false",
        "values: global.imagePullSecrets[0]: is a mapping; expected a string",
        "values: global.proxy.statusPort: \"70000\" is a number; expected a port from 1 to 65535, or 0 for none",
        "values: global.proxy.includeIPRanges: \"1.1.1.1\" has no prefix length",
        "values: global.proxy.excludeInboundPorts: \"\" is an empty item",
        "values: global.proxy.excludeInboundPorts: \"x\" is not a port",
        "values: global.proxy.readinessPeriodSeconds: \"-1\" is a number; expected a number from 0 to 2147483647",
        "values: global.proxy.resources.limits.cpu: \"lots\" is not a quantity",
        "values: pilot.env.ENABLE_NATIVE_SIDECARS: \"perhaps\" is none of those known; expected true, false, auto",
        "mesh: proxyListenPort: \"0\" is a number; expected a port from 1 to 65535",
        "mesh: defaultConfig: concurrency: \"many\" is not what is expected; expected a number",
        "mesh: defaultConfig: proxyMetadata.A: \"true\" is a boolean; expected a string; write it in quotes",
        "mesh: defaultConfig: statusPort: \"0\" is a number; expected a port from 1 to 65535",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(expected)), "{expected}\nis not in\n{shown}");
    }
    assert_eq!(lines.len(), 20, "{shown}");
    for (text, expected) in [
        ("a: [", "values: is not YAML or JSON"),
        ("[]", "values: is a list; expected a mapping"),
        ("a: 1\n---\nb: 1", "values: holds several documents; expected one"),
    ] {
        let shown = read("policy: enabled", text, "").expect_err("bad text");
        assert!(shown.contains(expected), "{shown}");
    }
}
