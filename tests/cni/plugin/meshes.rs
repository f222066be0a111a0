//! Pods of every mesh with its own annotations: CHECK accepts and DEL removes ADD's rules, whatever changes later in the pod and
//! configuration, and no rules are set beside another mesh.

use crate::cni::plugin::pods::{annotated, both_families, captures};
use crate::cni::plugin::runtime::{Answer, Node, container, mentions, rules};
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome};
use crate::support::scope;
use crate::support::setting::backends;
use serde_json::json;
use std::fs;

struct Kind {
    mesh: &'static str,
    name: &'static str,
    annotations: &'static [(&'static str, &'static str)],
    flags: &'static [&'static str],
}

const KINDS: [Kind; 4] = [
    Kind {
        mesh: "istio",
        name: "Istio's sidecar",
        annotations: &[
            ("sidecar.istio.io/status", r#"{"containers":["istio-proxy"]}"#),
            ("traffic.sidecar.istio.io/includeInboundPorts", "8080"),
            ("sidecar-init/dual-stack", "true"),
            ("proxy.istio.io/config", "proxyMetadata: {INVALID_DROP: 'true'}"),
        ],
        flags: &[
            "-u1337",
            "-g1337",
            "-i*",
            "-b8080",
            "-d15020,15021,15090",
            "-o15020",
            "--dual-stack",
            "--drop-invalid",
        ],
    },
    Kind {
        mesh: "linkerd",
        name: "linkerd",
        annotations: &[
            ("linkerd.io/proxy-version", "edge-26.8.1"),
            ("config.linkerd.io/skip-inbound-ports", "7000-7003"),
            ("config.linkerd.io/skip-outbound-ports", "3306"),
            ("config.linkerd.io/proxy-uid", "2107"),
            ("sidecar-init/ipv6", "true"),
        ],
        flags: &[
            "-p4143",
            "-o4140",
            "-u2107",
            "--inbound-ports-to-ignore=4190,4191,7000-7003",
            "--outbound-ports-to-ignore=3306",
        ],
    },
    Kind {
        mesh: "kuma",
        name: "Kuma",
        annotations: &[
            ("kuma.io/sidecar-injected", "true"),
            ("kuma.io/sidecar-uid", "1456"),
            ("kuma.io/transparent-proxying-inbound-port", "25006"),
            ("kuma.io/transparent-proxying-outbound-port", "25001"),
            ("kuma.io/builtin-dns", "enabled"),
            ("traffic.kuma.io/exclude-inbound-ports", "7000"),
            ("traffic.kuma.io/exclude-outbound-ips", "10.9.0.0/16,fd09::/16"),
            ("traffic.kuma.io/transparent-proxy-config", "redirect: {dns: {port: 25053}}"),
        ],
        flags: &[
            "--exclude-inbound-ports=7000,9001",
            "--exclude-outbound-ips=10.9.0.0/16,fd09::/16",
            "--redirect-all-dns-traffic",
            "--redirect-dns-port=25053",
            "--redirect-inbound-port=25006",
            "--redirect-outbound-port=25001",
            "--kuma-dp-user=1456",
        ],
    },
    Kind {
        mesh: "ambient",
        name: "Istio's ambient mode",
        annotations: &[
            ("ambient.istio.io/redirection", "enabled"),
            ("istio.io/reroute-virtual-interfaces", "vm0,br+"),
        ],
        flags: &["--reroute-virtual-interfaces=vm0,br+"],
    },
];

/// All rules and routing. An empty iptables (legacy) table is ignored: listing creates it.
fn everything(pod: &Namespace) -> String {
    const READ: &str = "iptables-legacy-save; ip6tables-legacy-save; ip -4 rule; ip -6 rule; \
        ip -4 route show table all; ip -6 route show table all; ip addr show lo";
    let is_empty = |line: &str| {
        line.starts_with(['#', '*']) || line == "COMMIT" || line.starts_with(':') && !line.contains(" - [")
    };
    // The kernel's own routes may appear a moment after their address.
    let is_kernels = |line: &str| line.contains(" proto kernel ");
    let read = pod.stdout("sh", &["-ec", READ]);
    let read: Vec<&str> = read.lines().filter(|line| !is_empty(line) && !is_kernels(line)).collect();
    rules(pod) + &read.join("\n")
}

fn call(node: &Node, verb: &str, backend: &str, given: &[(&str, &str)], pod: &Namespace) -> Outcome {
    let configuration = annotated(node, given, &json!({ "backend": backend }));
    node.call_with_programs(verb, &configuration, &pod.path())
}

fn apply(kind: &Kind, backend: &str, pod: &Namespace) {
    pod.stdout(BINARY, &[&["apply", "--mesh", kind.mesh, "--backend", backend], kind.flags].concat());
}

fn last_reason(node: &Node) -> String {
    node.lines().last().expect("a line")["reason"].to_string()
}

#[test]
fn add_sets_the_rules_of_the_flags_and_del_removes_them() {
    let cases = KINDS.iter().flat_map(|kind| backends().map(move |backend| (kind, backend)));
    for (kind, backend) in scope::of(cases.collect(), 4) {
        let (node, pod, other) = (Node::new(), both_families(), both_families());
        let case = format!("{} by {backend}", kind.mesh);
        let before = everything(&pod);
        apply(kind, backend, &other);
        let expected = everything(&other);
        call(&node, "ADD", backend, kind.annotations, &pod).well();
        assert_eq!(everything(&pod), expected, "{case}");
        call(&node, "ADD", backend, kind.annotations, &pod).well();
        assert_eq!(everything(&pod), expected, "{case}");
        assert!(last_reason(&node).contains("was in place"), "{case}: {}", last_reason(&node));
        // From here on, no annotation names the pod's mesh.
        call(&node, "CHECK", backend, &[], &pod).well();
        let tampering = match backend {
            "iptables-legacy" => "iptables-legacy -t nat -F OUTPUT",
            _ => "nft flush ruleset",
        };
        pod.stdout("sh", &["-c", tampering]);
        mentions(&call(&node, "CHECK", backend, &[], &pod).refused(101), &["differ from those of ADD"]);
        call(&node, "ADD", backend, kind.annotations, &pod).well();
        assert_eq!(everything(&pod), expected, "{case}");
        call(&node, "DEL", "nftables", &[], &pod).well();
        assert_eq!(everything(&pod), before, "{case}");
        assert!(node.attachments().is_empty(), "{case}");
        call(&node, "DEL", "nftables", &[], &pod).well();
        assert_eq!(everything(&pod), before, "{case}");
    }
}

/// Kuma has chains even with both directions disabled; ADD does not set them.
#[test]
fn pod_with_settings_that_capture_nothing_is_skipped_by_add_and_check() {
    let (node, pod) = (Node::new(), container());
    let off = "redirect: {inbound: {enabled: false}, outbound: {enabled: false}}";
    let given = [("kuma.io/sidecar-injected", "true"), ("traffic.kuma.io/transparent-proxy-config", off)];
    for verb in ["ADD", "CHECK"] {
        call(&node, verb, "nftables", &given, &pod).well();
        assert!(last_reason(&node).contains("capture nothing"), "{verb}: {}", last_reason(&node));
    }
    assert_eq!(rules(&pod), "");
}

#[test]
fn no_rules_are_set_beside_another_mesh() {
    for there in &KINDS {
        for requested in KINDS.iter().filter(|requested| requested.mesh != there.mesh) {
            let (node, pod) = (Node::new(), both_families());
            apply(there, "nftables", &pod);
            let before = everything(&pod);
            let error = call(&node, "ADD", "nftables", requested.annotations, &pod).refused(100);
            let remedy = format!("sidecar-init clean --mesh {}", there.mesh);
            mentions(&error, &[there.name, &format!("{} was requested", requested.name), &remedy]);
            assert_eq!(everything(&pod), before, "{} beside {}", requested.mesh, there.mesh);
            // A runtime calls DEL after a failed ADD.
            call(&node, "DEL", "nftables", requested.annotations, &pod).well();
            assert_eq!(everything(&pod), before, "{} beside {}", requested.mesh, there.mesh);
            assert!(node.attachments().is_empty());
        }
    }
}

#[test]
fn a_container_stays_with_its_mesh_until_it_is_deleted() {
    let (node, pod) = (Node::new(), both_families());
    let before = everything(&pod);
    let [_, linkerd, kuma, _] = &KINDS;
    call(&node, "ADD", "nftables", linkerd.annotations, &pod).well();
    let made = everything(&pod);
    let error = call(&node, "ADD", "nftables", kuma.annotations, &pod).refused(7);
    mentions(&error, &["captured this container for linkerd", "Kuma is requested now", "call DEL"]);
    assert_eq!(everything(&pod), made);
    call(&node, "CHECK", "nftables", kuma.annotations, &pod).well();
    call(&node, "DEL", "nftables", kuma.annotations, &pod).well();
    assert_eq!(everything(&pod), before);
    call(&node, "ADD", "nftables", kuma.annotations, &pod).well();
    call(&node, "DEL", "nftables", &[], &pod).well();
    assert_eq!(everything(&pod), before);
}

/// A torn record does not name the mesh.
#[test]
fn del_needs_only_the_container_name() {
    for kind in &KINDS {
        let (node, pod) = (Node::new(), both_families());
        let before = everything(&pod);
        call(&node, "ADD", "nftables", kind.annotations, &pod).well();
        fs::write(&node.attachments()[0], "{").expect("torn");
        call(&node, "DEL", "nftables", &[], &pod).well();
        assert_eq!(everything(&pod), before, "{}", kind.mesh);
        assert!(node.attachments().is_empty(), "{}", kind.mesh);
    }
}

#[test]
fn rules_of_a_mesh_stay_until_its_last_attachment_goes() {
    let [_, linkerd, kuma, _] = &KINDS;
    let (node, pod) = (Node::new(), both_families());
    let before = everything(&pod);
    let to = |network: &str, given: &[(&str, &str)]| {
        let mut configuration = annotated(&node, given, &json!({}));
        configuration["name"] = json!(network);
        configuration
    };
    node.does("ADD", &to("one", linkerd.annotations), &pod.path());
    let made = everything(&pod);
    node.does("ADD", &to("two", linkerd.annotations), &pod.path());
    node.call("ADD", &to("three", kuma.annotations), &pod.path()).refused(100);
    node.does("DEL", &to("one", &[]), &pod.path());
    assert_eq!(everything(&pod), made);
    node.does("CHECK", &to("two", &[]), &pod.path());
    node.does("DEL", &to("two", &[]), &pod.path());
    assert_eq!(everything(&pod), before);
    node.does("DEL", &to("three", &[]), &pod.path());
    assert!(node.attachments().is_empty());
}

/// As in linkerd's own plugin, inbound skip ports extend the node's; other settings replace the node's.
#[test]
fn linkerd_annotations_extend_the_node_skip_ports() {
    let node = Node::new();
    let defaults = json!({ "defaults": {
        "mesh": "linkerd", "proxy-uid": 2105, "ipv6": false,
        "inbound-ports-to-ignore": "4191,4190,9000", "outbound-ports-to-ignore": [443, 6443],
    } });
    let seen = ("linkerd.io/proxy-version", "edge-26.8.1");
    let flags = |inbound: &'static str, outbound: &'static str| {
        ["--mesh=linkerd", "-p4143", "-o4140", "-u2105", "--ipv6=false", inbound, outbound]
    };
    captures(
        &node,
        &annotated(&node, &[seen], &defaults),
        &flags("--inbound-ports-to-ignore=4191,4190,9000", "--outbound-ports-to-ignore=443,6443"),
    );
    let given = [
        seen,
        ("config.linkerd.io/skip-inbound-ports", "7000,8000-8002"),
        ("config.linkerd.io/skip-outbound-ports", "3306"),
    ];
    captures(
        &node,
        &annotated(&node, &given, &defaults),
        &flags("--inbound-ports-to-ignore=4191,4190,9000,7000,8000-8002", "--outbound-ports-to-ignore=3306"),
    );
    let given = [seen, ("sidecar-init/inbound-ports-to-ignore", "4190,4191,7000")];
    captures(
        &node,
        &annotated(&node, &given, &defaults),
        &flags("--inbound-ports-to-ignore=4190,4191,7000", "--outbound-ports-to-ignore=443,6443"),
    );
    // Linkerd's defaults do not apply to pods of another mesh.
    let [istio, _, kuma, _] = &KINDS;
    captures(&node, &annotated(&node, istio.annotations, &defaults), istio.flags);
    captures(&node, &annotated(&node, kuma.annotations, &defaults), &[&["--mesh=kuma"], kuma.flags].concat());
}

/// A runtime does not report the init container that sets rules; it runs after the plugin.
#[test]
fn init_container_of_the_same_mesh_takes_over_the_plugin_rules() {
    let [_, linkerd, kuma, _] = &KINDS;
    for (kind, command) in
        [(linkerd, &["linkerd-init"][..]), (kuma, &["kuma-init", "install", "transparent-proxy"])]
    {
        let (node, pod) = (Node::new(), both_families());
        let before = everything(&pod);
        call(&node, "ADD", "nftables", kind.annotations, &pod).well();
        let made = everything(&pod);
        // As in an image without iptables.
        pod.stdout(BINARY, &[command, &["--native-nftables"], kind.flags].concat());
        assert_eq!(everything(&pod), made, "{}", kind.mesh);
        call(&node, "CHECK", "nftables", &[], &pod).well();
        // The mesh's own program adds rules beside them.
        let chain = if kind.mesh == "kuma" { "KUMA_MESH_INBOUND" } else { "PROXY_INIT_REDIRECT" };
        for words in [["-N", chain].as_slice(), &["-A", "PREROUTING", "-p", "tcp", "-j", chain]] {
            pod.stdout("iptables-nft", &[&["-t", "nat"], words].concat());
        }
        mentions(&call(&node, "CHECK", "nftables", &[], &pod).refused(101), &[chain]);
        call(&node, "ADD", "nftables", kind.annotations, &pod).well();
        assert_eq!(everything(&pod), made, "{}", kind.mesh);
        // An init container with other settings runs last, so it takes effect, in the iptables tables that it uses.
        let other = if kind.mesh == "kuma" { "--redirect-inbound-port=7" } else { "--incoming-proxy-port=7" };
        let flags = kind.flags.iter().copied().filter(|flag| !flag.starts_with("-p"));
        pod.stdout(BINARY, &[command, &flags.chain([other]).collect::<Vec<_>>()].concat());
        let set = everything(&pod);
        assert!(set.contains("--to-ports 7\n") || set.contains("redirect to :7\n"), "{set}");
        mentions(&call(&node, "CHECK", "nftables", &[], &pod).refused(101), &["differ from those of ADD"]);
        call(&node, "DEL", "nftables", &[], &pod).well();
        assert_eq!(everything(&pod), before, "{}", kind.mesh);
        let requested = if kind.mesh == "kuma" { linkerd } else { kuma };
        call(&node, "ADD", "nftables", requested.annotations, &pod).well();
        let made = everything(&pod);
        let printed = pod.output(BINARY, &[command, kind.flags].concat(), "");
        let printed = (printed.code, printed.stderr.clone());
        assert!(
            printed.0 == Some(1) && printed.1.contains(&format!("{} was requested", kind.name)),
            "{printed:?}"
        );
        assert_eq!(everything(&pod), made, "{}", kind.mesh);
    }
}
