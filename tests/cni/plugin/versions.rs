//! Every verb against every version of the specification, and what goes in and out unchanged.

use crate::cni::plugin::runtime::{Answer, Node, container, rules, run, says};
use serde_json::{Value, json};

const VERSIONS: [&str; 5] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// Each with the index of the first version that has it.
const VERBS: [(&str, usize); 5] = [("ADD", 0), ("CHECK", 2), ("DEL", 0), ("GC", 4), ("STATUS", 4)];

#[test]
fn a_verb_is_there_from_its_version_on() {
    let (node, pod) = (Node::new(), container());
    for (at, version) in VERSIONS.iter().enumerate() {
        for (verb, since) in VERBS {
            let more = json!({"cniVersion": version, "cni.dev/valid-attachments": []});
            let mut configuration = node.capturing();
            configuration.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
            let ended = node.call(verb, &configuration, &pod.path());
            if at >= since {
                assert_eq!(ended.stdout.is_empty(), verb != "ADD", "{verb} {version}");
                ended.well();
            } else {
                let error = ended.refused(1);
                assert_eq!(error["cniVersion"], *version);
                says(&error, &[verb, version, "raise cniVersion"]);
            }
        }
    }
}

#[test]
fn other_versions_are_refused_and_named() {
    let (node, pod) = (Node::new(), container());
    for version in [json!("0.2.0"), json!("1.1"), json!("2.0.0"), json!("")] {
        let mut configuration = node.capturing();
        configuration["cniVersion"] = version.clone();
        for verb in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
            let error = node.call(verb, &configuration, &pod.path()).refused(1);
            says(&error, &[&version.to_string(), "0.3.1, 0.4.0, 1.0.0, 1.1.0"]);
        }
    }
    let mut without = node.capturing();
    without.as_object_mut().expect("an object").remove("cniVersion");
    says(&node.call("ADD", &without, &pod.path()).refused(1), &["0.1.0"]);
    assert_eq!(rules(&pod), "");
}

/// Also where the network's name is wrong.
#[test]
fn an_error_is_answered_in_the_version_of_the_configuration() {
    let (node, pod) = (Node::new(), container());
    let configuration = node.configuration(&json!({"cniVersion": "0.4.0", "name": "a/b"}));
    for verb in ["ADD", "DEL"] {
        assert_eq!(node.call(verb, &configuration, &pod.path()).refused(7)["cniVersion"], "0.4.0");
    }
}

#[test]
fn version_is_answered_in_the_runtimes_own() {
    let all = json!(VERSIONS);
    for (input, version) in [
        ("", "1.1.0"),
        ("\n", "1.1.0"),
        ("{}", "1.1.0"),
        (r#"{"cniVersion":"0.4.0"}"#, "0.4.0"),
        (r#"{"cniVersion":"0.4.0","whatever":[]}"#, "0.4.0"),
        (r#"{"cniVersion":"9.0.0"}"#, "1.1.0"),
        (r#"{"cniVersion":3}"#, "1.1.0"),
    ] {
        let answer: Value = serde_json::from_str(&run("VERSION", &[], input).well()).expect("JSON");
        assert_eq!(answer, json!({"cniVersion": version, "supportedVersions": all}), "{input}");
    }
    run("VERSION", &[], "{").refused(6);
}

#[test]
fn without_plugins_before_the_result_is_empty_and_valid() {
    let (node, pod) = (Node::new(), container());
    for version in VERSIONS {
        let mut configuration = node.capturing();
        configuration["cniVersion"] = json!(version);
        let answer: Value =
            serde_json::from_str(&node.does("ADD", &configuration, &pod.path())).expect("JSON");
        assert_eq!(
            answer,
            json!({"cniVersion": version, "interfaces": [], "ips": [], "routes": [], "dns": {}})
        );
    }
}
