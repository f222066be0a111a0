//! Bad input: the right number, valid JSON, everything that is wrong at once, and no rule touched.

use crate::cni::plugin::runtime::{Answer, Node, container, rules, run, says, start, variables};
use crate::support::namespace::Namespace;
use crate::support::program::finish;
use serde_json::json;

const VERBS: [&str; 5] = ["ADD", "CHECK", "DEL", "GC", "STATUS"];

#[test]
fn what_is_no_json_object_is_refused() {
    let pod = container();
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(200_000), close.repeat(200_000));
    let inputs = [
        String::new(),
        " ".to_owned(),
        "{".to_owned(),
        r#"{"cniVersion":"1.0.0","name":"mesh""#.to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        "17".to_owned(),
        r#""text""#.to_owned(),
        r#"{"cniVersion":"1.0.0"} trailing"#.to_owned(),
        deep("[", "]"),
        deep(r#"{"a":"#, "}"),
        format!(r#"{{"cniVersion":"1.0.0","name":"{}"}}"#, "x".repeat(10 << 20)),
        " ".repeat(10 << 20),
    ];
    for input in &inputs {
        for verb in VERBS {
            let error = run(verb, &variables("c1", &pod.path()), input).refused(6);
            says(&error, &["standard input"]);
        }
    }
    for bytes in [&b"\xff\xfe{}"[..], b"{\"name\":\"\xff\"}", b"\0"] {
        finish(start("ADD", &variables("c1", &pod.path())), bytes).refused(6);
    }
    assert_eq!(rules(&pod), "");
}

/// A value of a wrong type or form at each key: the number, and what the error says besides the key.
#[test]
fn wrong_values_are_named() {
    let (node, pod) = (Node::new(), container());
    for (key, value, expected) in [
        ("name", json!(17), "17"),
        ("name", json!("a/b"), "a/b"),
        ("name", json!(null), "is not there"),
        ("name", json!(""), "letter or digit"),
        ("cniVersion", json!({}), "expected one such as"),
        ("prevResult", json!([]), "expected an object"),
        ("runtimeConfig", json!("x"), "capabilities"),
        ("runtimeConfig", json!({"io.kubernetes.cri.pod-annotations": {"a": 1}}), "pod-annotations"),
        ("capture", json!([]), "object of settings"),
        ("capture", json!({"proxy-uid": {}}), "capture.proxy-uid"),
        ("capture", json!({"proxy-uid": null}), "capture.proxy-uid"),
        ("capture", json!({"proxy-gdi": 1}), "did you mean proxy-gid?"),
        ("capture", json!({"dry-run": true}), "capture.dry-run: unknown setting"),
        ("defaults", json!({"proxy-gdi": 1}), "defaults.proxy-gdi"),
        ("exclude_namespaces", json!("kube-system"), "a list of names"),
        ("backend", json!("ipchains"), "iptables-legacy"),
        ("timeout", json!("0s"), "100ms to 10m"),
        ("timeout", json!(5), "a string"),
        ("timeout", json!("1h"), "100ms to 10m"),
        ("state_dir", json!("relative"), "starts with /"),
        ("log", json!("relative"), "journal or none"),
        ("log_max_bytes", json!(-1), "number of bytes"),
    ] {
        let mut configuration = node.capturing();
        configuration[key] = value.clone();
        let error = node.call("ADD", &configuration, &pod.path()).refused(7);
        says(&error, &[key, expected, "nothing was changed"]);
    }
    assert_eq!(rules(&pod), "");
}

#[test]
fn unknown_keys_are_refused_with_their_value_and_the_nearest_name() {
    let (node, pod) = (Node::new(), container());
    for (key, expected) in [
        ("captures", "did you mean capture?"),
        ("exclude_namespace", "did you mean exclude_namespaces?"),
        ("runtimeconfig", "did you mean runtimeConfig?"),
        ("kube_config", "did you mean kubeconfig?"),
        ("zzz", "expected one of capture, defaults"),
    ] {
        let error = node.call("ADD", &node.configuration(&json!({key: "its value"})), &pod.path()).refused(2);
        says(&error, &[key, "its value", expected]);
    }
    // What the specification and runtimes add is taken.
    let known = json!({
        "cniVersions": ["1.0.0"], "args": {"cni": {}}, "capabilities": {"portMappings": true},
        "disableCheck": false, "disableGC": true, "dns": {}, "ipMasq": true, "ipam": {}, "cni.dev/whatever": 1,
        "runtimeConfig": {"portMappings": [], "io.kubernetes.cri.pod-annotations": null}, "prevResult": null,
    });
    node.does("ADD", &node.configuration(&known), &pod.path());
}

#[test]
fn all_problems_are_told_at_once() {
    let (node, pod) = (Node::new(), container());
    let configuration = node.configuration(&json!({
        "capture": {"istio-inbound-prots": "*"}, "timeout": "soon", "backnd": 1, "log": "",
    }));
    let error = node.call("ADD", &configuration, &pod.path()).refused(7);
    says(&error, &["istio-inbound-ports?", "timeout: \"soon\"", "backend?", "log: \"\"", "and 3 more"]);
    let settings = json!({"istio-inbound-ports": [80, 99999], "redirect-dns": true});
    let error = node.call("ADD", &node.configuration(&json!({"capture": settings})), &pod.path()).refused(7);
    says(&error, &["capture.istio-inbound-ports: \"99999\"", "capture-all-dns"]);
    assert_eq!(rules(&pod), "");
    assert!(node.attachments().is_empty());
}

#[test]
fn a_key_given_twice_is_refused() {
    let (node, pod) = (Node::new(), container());
    let text = node.capturing().to_string();
    let twice = text.replacen('{', r#"{"timeout":"1s","timeout":"2s","#, 1);
    says(&run("ADD", &variables("c1", &pod.path()), &twice).refused(7), &["timeout: is there twice"]);
    let inner =
        text.replace(r#"{"istio-inbound-ports""#, r#"{"proxy-uid":1,"proxy-uid":2,"istio-inbound-ports""#);
    assert_ne!(inner, text);
    says(
        &run("ADD", &variables("c1", &pod.path()), &inner).refused(7),
        &["capture.proxy-uid: is there twice"],
    );
}

#[test]
fn missing_and_wrong_variables_are_named() {
    let (node, pod) = (Node::new(), container());
    let (path, input) = (pod.path(), node.capturing().to_string());
    for verb in ["ADD", "CHECK", "DEL"] {
        for name in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"] {
            let optional = verb == "DEL" && name == "CNI_NETNS";
            for value in [None, Some("")] {
                let mut variables = variables("c1", &path);
                variables.retain(|(other, _)| *other != name);
                variables.extend(value.map(|value| (name, value)));
                let ended = run(verb, &variables, &input);
                if optional {
                    ended.well();
                } else {
                    says(&ended.refused(4), &[name, "not set"]);
                }
            }
        }
    }
    for (name, value) in [
        ("CNI_CONTAINERID", "../../etc/passwd"),
        ("CNI_CONTAINERID", "-c1"),
        ("CNI_CONTAINERID", "c@1"),
        ("CNI_IFNAME", "a/b"),
        ("CNI_IFNAME", ".."),
        ("CNI_IFNAME", "sixteencharacter"),
        ("CNI_IFNAME", "eth 0"),
    ] {
        let mut variables = variables("c1", &path);
        variables.push((name, value));
        for verb in ["ADD", "CHECK", "DEL"] {
            says(&run(verb, &variables, &input).refused(4), &[name, value]);
        }
    }
    says(&run("", &[], "").refused(4), &["CNI_COMMAND", "ADD, CHECK, DEL, GC, STATUS, VERSION"]);
    says(&run("add", &[], "").refused(4), &["CNI_COMMAND: \"add\""]);
    // All at once.
    says(&run("ADD", &[], &input).refused(4), &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "and 2 more"]);
    assert_eq!(rules(&pod), "");
}

#[test]
fn odd_arguments_of_others_are_no_reason_to_refuse_a_pod() {
    let (node, pod) = (Node::new(), container());
    let path = pod.path();
    for arguments in ["", ";", "a", "a=b=c;;x", "K8S_POD_NAME=", "\u{fffd}=1"] {
        let mut variables = variables("c1", &path);
        variables.push(("CNI_ARGS", arguments));
        run("ADD", &variables, &node.capturing().to_string()).well();
    }
}

#[test]
fn what_is_no_namespace_of_a_container_is_refused() {
    let node = Node::new();
    let file = node.folder.join("file");
    std::fs::write(&file, "").expect("a file");
    for (path, expected) in [
        ("/run/netns/no-such-namespace", "is not a network namespace"),
        (crate::cni::plugin::runtime::text(&file), "is not a network namespace"),
        ("/proc/self/ns/net", "the runtime's own"),
        ("/proc/self/ns/mnt", "is not a network namespace"),
    ] {
        for verb in ["ADD", "CHECK"] {
            says(&node.call(verb, &node.capturing(), path).refused(4), &["CNI_NETNS", path, expected]);
        }
    }
    let empty = Namespace::new();
    let error = node.call("ADD", &node.capturing(), &empty.path()).refused(7);
    says(&error, &["has no address", "comes after those that give"]);
    assert_eq!(rules(&empty), "");
    assert!(node.attachments().is_empty());
}
