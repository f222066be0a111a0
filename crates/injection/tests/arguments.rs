//! Arguments of the init container, parsed by the policy as for any pod: the capture matches the annotations.

use crate::support::read;
use injection::configuration::{IstioValues, MeshConfig};
use injection::sidecar::{InitMode, Mode, Sidecar};
use injection::{AdmissionContext, Configuration};
use mesh::Selection;
use mesh::istio::{CaptureConfig, Interception};
use mesh::pod::{CaptureMethod, EXCLUDED_NAMESPACES};
use mesh::sources::Host;
use rules::{Cidr, InterfaceName, PortRange};
use serde_json::{Map, Value, json};
use std::{io, net::IpAddr};

pub(crate) struct Pod;

impl Host for Pod {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::from([10, 1, 2, 3])])
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

/// An annotation's name, a valid value, Istio's default, and the default from the values below.
type Row = (&'static str, &'static str, Option<&'static str>, Option<&'static str>);

const ROWS: [Row; 8] = [
    (
        "traffic.sidecar.istio.io/includeOutboundIPRanges",
        "10.1.2.3/8,192.168.0.0/16",
        Some("*"),
        Some("10.96.0.0/12"),
    ),
    (
        "traffic.sidecar.istio.io/excludeOutboundIPRanges",
        "169.254.169.254/32",
        Some(""),
        Some("10.97.0.0/16"),
    ),
    ("traffic.sidecar.istio.io/includeInboundPorts", "80, 8080", Some("*"), Some("8081")),
    ("traffic.sidecar.istio.io/excludeInboundPorts", "7,15020", Some(""), Some("9090")),
    ("traffic.sidecar.istio.io/includeOutboundPorts", "443", None, Some("8443")),
    ("traffic.sidecar.istio.io/excludeOutboundPorts", "3306,5432", None, Some("6379")),
    ("traffic.sidecar.istio.io/excludeInterfaces", "eth1, net_2", None, None),
    ("istio.io/reroute-virtual-interfaces", "vnet0", None, None),
];

const VALUES: &str = "
global:
  proxy:
    includeIPRanges: 10.96.0.0/12
    excludeIPRanges: 10.97.0.0/16
    includeInboundPorts: '8081'
    excludeInboundPorts: '9090'
    includeOutboundPorts: '8443'
    excludeOutboundPorts: '6379'
";
const MODES: [Option<&str>; 4] = [None, Some("REDIRECT"), Some("TPROXY"), Some("NONE")];

/// `ways` has 0 (absent), 1 (empty) or 2 (valid) per row.
struct Case {
    ways: [usize; 8],
    mode: Option<&'static str>,
    cni: bool,
    valued: bool,
}

impl Case {
    fn of(number: usize) -> Self {
        let mut rest = number;
        let ways = ROWS.each_ref().map(|_| {
            let way = rest % 3;
            rest /= 3;
            way
        });
        Self { ways, ..Self::around(number / 2) }
    }

    /// 16 cases without annotations.
    fn around(number: usize) -> Self {
        let (cni, valued) = (number % 8 / 4 == 1, number % 16 / 8 == 1);
        Self { ways: [0; 8], mode: MODES[number % 4], cni, valued }
    }

    fn annotations(&self) -> Map<String, Value> {
        let mut annotations = Map::new();
        for ((name, valid, ..), way) in ROWS.iter().zip(self.ways) {
            let text = [None, Some(""), Some(*valid)][way];
            annotations.extend(text.map(|text| ((*name).to_owned(), Value::from(text))));
        }
        let mode = self.mode.map(|mode| ("sidecar.istio.io/interceptionMode".to_owned(), mode.into()));
        annotations.extend(mode);
        annotations
    }

    fn expected(&self, at: usize) -> Option<&'static str> {
        let (_, valid, default, valued) = ROWS[at];
        match self.ways[at] {
            0 if self.valued => valued,
            0 => default,
            1 => Some(""),
            _ => Some(valid),
        }
    }

    fn items(&self, at: usize) -> Vec<&'static str> {
        let items = self.expected(at).unwrap_or_default().split(',').map(str::trim);
        items.filter(|item| !item.is_empty()).collect()
    }

    fn configuration(&self) -> Configuration {
        let mut values = if self.valued { VALUES.to_owned() } else { "global: {}\n".to_owned() };
        if self.cni {
            values.push_str("pilot: {cni: {enabled: true}}\n");
        }
        read("", &values, "").expect("good values")
    }

    /// Checks a capture. A plugin excludes the agent's port from outbound capture unless an annotation overrides that.
    fn check(&self, capture: &CaptureConfig, by_plugin: bool, shown: &str) {
        let sorted = |mut ports: Vec<PortRange>| {
            ports.sort();
            ports.dedup();
            ports
        };
        let ports = |items: &[&str]| sorted(items.iter().map(|item| item.parse().expect("a port")).collect());
        let networks = |at| -> Vec<Cidr> {
            let network = |item: &&str| Cidr::parse_noting_host_bits(item).expect("a network").0;
            self.items(at).iter().map(network).collect()
        };
        let included = (self.expected(0) != Some("*")).then(|| networks(0));
        assert_eq!(capture.outbound_cidrs, included, "{shown}");
        assert_eq!(capture.excluded_cidrs, networks(1), "{shown}");
        match (&capture.inbound_ports, self.expected(2)) {
            (Selection::AllBut(excluded), Some("*")) => {
                let expected = [self.items(3), vec!["15020", "15021", "15090"]].concat();
                assert_eq!(sorted(excluded.clone()), ports(&expected), "{shown}");
            }
            (Selection::Only(only), _) => assert_eq!(only, &ports(&self.items(2)), "{shown}"),
            (Selection::AllBut(_), _) => panic!("all inbound ports: {shown}"),
        }
        assert_eq!(capture.outbound_ports, ports(&self.items(4)), "{shown}");
        let nobody_says = by_plugin && self.expected(5).is_none();
        let excluded = if nobody_says { ports(&["15020"]) } else { ports(&self.items(5)) };
        assert_eq!(capture.excluded_outbound_ports, excluded, "{shown}");
        let interfaces = |at| -> Vec<InterfaceName> {
            self.items(at).iter().map(|item| item.parse().expect("an interface")).collect()
        };
        assert_eq!(capture.excluded_interfaces, interfaces(6), "{shown}");
        assert_eq!(capture.vm_interfaces, interfaces(7), "{shown}");
        let tproxy = matches!(capture.interception, Interception::Tproxy { .. });
        assert_eq!(tproxy, self.mode == Some("TPROXY"), "{shown}");
        assert_eq!(capture.proxy_gids.iter().map(|gid| gid.number()).collect::<Vec<_>>(), [1337], "{shown}");
        let listeners = [capture.outbound_listener, capture.inbound_listener].map(|one| one.to_string());
        assert_eq!(listeners, ["15001", "15006"], "{shown}");
    }
}

fn pod(annotations: &Map<String, Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
           "spec": {"containers": [{"name": "app", "image": "app"}]}})
}

fn captured(pod: &Value) -> (CaptureMethod, CaptureConfig) {
    let objects = mesh::pod::objects("pod", &pod.to_string()).expect("a pod");
    let reading = mesh::pod::read(&objects[0], EXCLUDED_NAMESPACES);
    let resolved = reading.settings.resolve(&Pod).unwrap_or_else(|problems| panic!("{problems}\n{pod}"));
    (reading.way, mesh::istio::of(&resolved.capture).expect("Istio's").clone())
}

#[test]
fn captures_match_all_combinations_of_annotations() {
    let configurations: Vec<Configuration> =
        (0..16).map(|number| Case::around(number).configuration()).collect();
    let (mut by_init, mut by_plugin, mut none) = (0, 0, 0);
    // Every other combination of annotations; 3 and 16 are coprime, so all configurations occur.
    for number in (1..3_usize.pow(8)).step_by(2) {
        let case = Case::of(number);
        let annotations = case.annotations();
        let mut pod = pod(&annotations);
        let Configuration { values, mesh, .. } = &configurations[number / 2 % 16];
        let sidecar = Sidecar::of(&pod, &AdmissionContext::default(), values, mesh)
            .unwrap_or_else(|problems| panic!("{problems}\n{annotations:?}"));
        let shown = format!("{annotations:?} {:?}", sidecar.arguments());
        let Some(name) = sidecar.init.name() else {
            assert_eq!((sidecar.mode, sidecar.arguments().len()), (Mode::None, 0), "{shown}");
            none += 1;
            continue;
        };
        pod["spec"]["initContainers"] = json!([{"name": name, "image": "init", "args": sidecar.arguments()}]);
        for (name, value) in sidecar.plugin_annotations(&pod) {
            pod["metadata"]["annotations"][name] = value.into();
        }
        let (way, capture) = captured(&pod);
        match way {
            CaptureMethod::InitContainer(found) => {
                assert_eq!((found.as_str(), sidecar.init), ("istio-init", InitMode::Capture), "{shown}");
                case.check(&capture, false, &shown);
                by_init += 1;
            }
            CaptureMethod::Annotations => {
                assert_eq!(sidecar.init, InitMode::Validation, "{shown}");
                case.check(&capture, true, &shown);
                // Without its own flags, the validation's arguments set the same rules.
                let flags = ["--run-validation", "--skip-rule-apply"];
                let mut left = sidecar.arguments();
                left.retain(|word| !flags.contains(&word.as_str()));
                assert_eq!(left.len() + 2, sidecar.arguments().len(), "{shown}");
                pod["spec"]["initContainers"][0]["args"] = json!(left);
                let (way, capture) = captured(&pod);
                assert!(matches!(way, CaptureMethod::InitContainer(_)), "{shown}");
                case.check(&capture, false, &shown);
                by_plugin += 1;
            }
        }
    }
    assert_eq!(by_init + by_plugin + none, 3280);
    assert!([by_init, by_plugin, none].iter().all(|count| *count > 800), "{by_init} {by_plugin} {none}");
}

#[test]
fn own_annotations_are_consistent() {
    let own = json!({
        "sidecar-init/drop-invalid": "T", "sidecar-init/istio-outbound-ports": "8000-9000",
        "sidecar-init/istio-outbound-owner-groups": "1000", "sidecar-init/envoy-port": "16001",
        "traffic.sidecar.istio.io/includeInboundPorts": "80",
    });
    let mut pod = pod(own.as_object().expect("a mapping"));
    let sidecar =
        Sidecar::of(&pod, &AdmissionContext::default(), &IstioValues::default(), &MeshConfig::default())
            .expect("good annotations");
    let env: Vec<Value> =
        sidecar.init_variables.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    pod["spec"]["initContainers"] = json!([{"name": "istio-init", "args": sidecar.arguments(), "env": env}]);
    let objects = mesh::pod::objects("pod", &pod.to_string()).expect("a pod");
    let reading = mesh::pod::read(&objects[0], EXCLUDED_NAMESPACES);
    assert_eq!(reading.warnings, [], "both sources must agree");
}
