//! Random annotations and values give an error, or arguments that the init container accepts; never a panic, nor a word that
//! another parser splits.

use crate::arguments::Pod;
use crate::support::read;
use injection::sidecar::Sidecar;
use injection::{AdmissionContext, Configuration};
use mesh::pod::EXCLUDED_NAMESPACES;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof};
use proptest::strategy::Union;
use proptest::string::string_regex;
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

static CONFIGURATION: LazyLock<Configuration> = LazyLock::new(Configuration::default);

/// Annotations with regular expressions for their typical values.
const NAMES: [(&str, &str); 19] = [
    ("istio.io/reroute-virtual-interfaces", "[a-z]{1,4}[0-9](, ?[a-z.]{1,15})?"),
    ("proxy.istio.io/config", "concurrency: [0-9]\nproxyMetadata: \\{A: '[a-z]'\\}"),
    ("sidecar-init/drop-invalid", "[tfTF01]|true|FALSE"),
    ("sidecar-init/inbound-capture-port", "[1-9][0-9]{3}(-65535)?"),
    ("sidecar-init/istio-inbound-interception-mode", "[Tt]proxy|redirect|"),
    ("sidecar-init/istio-outbound-ports", "[1-9][0-9]{0,3}(-9999)?( , [1-9][0-9]{0,3})?"),
    ("sidecar-init/proxy-uid", "[0-9]{1,9}(,0)?"),
    ("sidecar.istio.io/agentLogLevel", "[a-z]{3}:debug(,[a-z]{3}:info)?"),
    ("sidecar.istio.io/interceptionMode", "REDIRECT|TPROXY"),
    ("sidecar.istio.io/proxyCPU", "[0-9]{1,3}m?"),
    ("status.sidecar.istio.io/port", " ?[0-9]{1,4}"),
    ("traffic.sidecar.istio.io/excludeInboundPorts", "( ?[0-9]{1,4},)*[0-9]"),
    ("traffic.sidecar.istio.io/excludeInterfaces", "[a-zA-Z][a-zA-Z0-9_.-]{0,14}"),
    (
        "traffic.sidecar.istio.io/excludeOutboundIPRanges",
        "([12]?[0-9]\\.){3}[0-9]/[12]?[0-9](,[a-f0-9]{1,4}::[0-9]/[0-9]{1,2})?",
    ),
    ("traffic.sidecar.istio.io/excludeOutboundPorts", "( ?[0-9]{1,4},){0,20}[0-9]"),
    ("traffic.sidecar.istio.io/includeInboundPorts", "\\*|([0-9]{1,4},){0,20}[0-9]{1,4} ?"),
    ("traffic.sidecar.istio.io/includeOutboundIPRanges", "\\*|::ffff:1.2.3.4/[0-9]{1,2}|0.0.0.0/0"),
    ("traffic.sidecar.istio.io/includeOutboundPorts", "([0-9]{1,4},){0,3}[0-9]{1,4}"),
    ("traffic.sidecar.istio.io/kubevirtInterfaces", "[a-z]{0,3}[0-9]?"),
];

fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => "[0-9]{1,6}",
        2 => "[0-9]{1,3}(\\.[0-9]{1,3}){3}/[0-9]{1,2}",
        1 => "[0-9a-f:]{1,12}/[0-9]{1,3}",
        2 => "[a-z][a-z0-9_.+@-]{0,15}",
        1 => "[A-Z]{4,8}: ?[A-Z]{4,8}",
        1 => prop_oneof![Just("*"), Just(""), Just("TPROXY"), Just("REDIRECT"), Just("NONE"), Just("true")]
            .prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let gap = prop_oneof![8 => Just(","), 1 => Just(", "), 1 => Just(" "), 1 => Just("\n")];
    (prop::collection::vec(word, 0..4), gap).prop_map(|(words, gap)| words.join(gap))
}

fn annotations() -> impl Strategy<Value = Map<String, Value>> {
    let one = Union::new(NAMES.map(|(name, usual)| {
        let usual = string_regex(usual).expect("an expression");
        (Just(name), prop_oneof![9 => usual.boxed(), 1 => words().boxed()])
    }));
    prop::collection::vec(one, 1..6)
        .prop_map(|all| all.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))).collect())
}

const KEYS: &str = "global proxy proxy_init image resources limits statusPort includeIPRanges pilot cni env enabled policy templates \
                    sidecar aliases defaultTemplates neverInjectSelector matchLabels matchExpressions key operator values \
                    injectedAnnotations defaultConfig proxyMetadata concurrency interceptionMode proxyListenPort \
                    inboundTrafficPolicy mode x.y";

fn trees() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..70_000_i64).prop_map(Value::from),
        words().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let key = prop::sample::select(KEYS.split(' ').collect::<Vec<_>>());
        let map = prop::collection::vec((key, inner.clone()), 0..5);
        prop_oneof![
            3 => map.prop_map(|all| Value::Object(all.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn arguments_are_taken_or_the_pod_is_refused(annotations in annotations()) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
            "spec": {"containers": [{"name": "app"}]},
        });
        let Ok(sidecar) = Sidecar::of(&pod, &AdmissionContext::default(), &CONFIGURATION.values, &CONFIGURATION.mesh) else { return Ok(()) };
        let Some(name) = sidecar.init.name() else { return Ok(()) };
        // A space or a line break in a word would split it where it is printed.
        let notes = |c: char| c.is_whitespace() || c.is_control() || "\"'\\".contains(c);
        prop_assert!(sidecar.arguments().iter().all(|word| !word.contains(notes)), "{:?}", sidecar.arguments());
        let env: Vec<Value> =
            sidecar.init_variables.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        pod["spec"]["initContainers"] = json!([{"name": name, "args": sidecar.arguments(), "env": env}]);
        let objects = mesh::pod::objects("pod", &pod.to_string()).expect("a pod");
        let reading = mesh::pod::read(&objects[0], EXCLUDED_NAMESPACES);
        let resolved = reading.settings.resolve(&Pod);
        prop_assert!(resolved.is_ok(), "{}\n{:?}", resolved.expect_err("bad"), sidecar.arguments());
    }

    #[test]
    fn any_tree_is_a_configuration_or_refused_with_its_path(config in trees(), values in trees(), mesh in trees()) {
        let [config, values, mesh] = [config, values, mesh].map(|tree| tree.to_string());
        match read(&config, &values, &mesh) {
            Ok(configuration) => {
                let sidecar = Sidecar::of(&json!({}), &AdmissionContext::default(), &configuration.values, &configuration.mesh);
                let sidecar = sidecar.expect("a plain pod");
                prop_assert_eq!(sidecar.arguments().is_empty(), sidecar.init.name().is_none());
            }
            Err(problems) => {
                let named = |name: &str| ["config", "values", "mesh"].iter().any(|text| name.starts_with(text));
                prop_assert!(problems.0.iter().all(|problem| named(&problem.name)), "{}", problems);
            }
        }
    }
}
