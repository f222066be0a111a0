//! Machine-readable output, including failures, matches the schemas in `docs/schemas` in real namespace states; the documents
//! about the schemas are complete.

use crate::support::namespace;
use crate::support::program::{BINARY, Outcome};
use crate::support::scope;
use crate::support::setting::backends;

use namespace::Namespace;
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const POD: [&str; 6] = ["--pod-ips", "10.77.0.2", "-i", "*", "-b", "*"];

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Makes the schema reject unknown fields: readers ignore such fields, but none is printed.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            if keys.contains_key("properties") {
                keys.insert("additionalProperties".to_owned(), false.into());
            }
            keys.values_mut().for_each(strict);
        }
        Value::Array(items) => items.iter_mut().for_each(strict),
        _ => {}
    }
}

fn valid(name: &str, document: &Value) {
    let mut schema: Value = serde_json::from_str(&read(&format!("docs/schemas/{name}.json"))).expect("JSON");
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name}: {error}"));
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, Vec::<String>::new(), "{name}: {document:#}");
    assert_eq!(document["version"], 1, "{name}");
}

fn run(namespace: &Namespace, arguments: &[&str]) -> Outcome {
    namespace.output(BINARY, arguments, "")
}

/// Output of a command that changes nothing, compared as JSON and YAML.
fn printed(namespace: &Namespace, name: &str, code: i32, arguments: &[&str]) -> Value {
    let json = run(namespace, &[arguments, &["--output", "json"]].concat());
    let yaml = run(namespace, &[arguments, &["--output", "yaml"]].concat());
    let document = document(&json, arguments, code);
    valid(name, &document);
    assert_eq!(yaml.code, Some(code), "{arguments:?}");
    let text = yaml.stdout;
    let read: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    // Processes may start or end between the two calls.
    let without = |document: &Value| {
        let mut document = document.clone();
        if let Some(findings) = document.get_mut("findings").and_then(Value::as_array_mut) {
            findings.retain(|finding| finding["topic"] != "processes");
        }
        document
    };
    assert_eq!(without(&read), without(&document), "{arguments:?}");
    document
}

fn document(output: &Outcome, arguments: &[&str], code: i32) -> Value {
    let text = output.clone().with(code, &arguments.join(" ")).stdout;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error} in\n{output:?}"))
}

fn with<'a>(command: &[&'a str], flags: &[&'a str]) -> Vec<&'a str> {
    [command, &POD, flags].concat()
}

#[test]
fn output_for_flags_matches_its_schemas() {
    let namespace = Namespace::new();
    let lint =
        printed(&namespace, "lint", 0, &with(&["lint"], &["-d", "15090", "-x", "10.0.0.0/8,10.0.0.0/8"]));
    assert_eq!(lint["findings"][0]["code"], "SI008");
    printed(&namespace, "lint", 0, &with(&["lint"], &["-b", "0", "--capture-all-dns"]));
    printed(&namespace, "render", 0, &with(&["render"], &["--dual-stack", "-m", "TPROXY"]));
    for packet in [&["10.0.0.5:443"][..], &["8080"], &["--uid", "1337", "10.0.0.5:443"], &["127.0.0.1:1"]] {
        printed(&namespace, "explain", 0, &with(&["explain"], packet));
    }
    printed(&namespace, "explain", 0, &with(&["explain", "-z", "15006-15009"], &["8080"]));
    printed(&namespace, "explain", 0, &["explain", "--live", "--pod-ips", "10.77.0.2", "10.0.0.5:443"]);
    let file = Path::new(ROOT).join("target/contract-pods.yaml");
    let pod = read("docker/pod-istio.yaml");
    fs::write(&file, format!("{pod}\n---\n{pod}")).expect("a file in target");
    let file = file.to_str().expect("UTF-8");
    let of = [("lint", vec![]), ("render", vec![]), ("explain", vec!["8080"])];
    for (command, words) in of {
        let arguments = [&[command, "-f", file], &words[..]].concat();
        let document = printed(&namespace, "answers", 0, &arguments);
        let answers = document["answers"].as_array().expect("a list");
        assert_eq!(answers.len(), 2);
        answers.iter().for_each(|answer| valid(command, &answer["answer"]));
    }
}

#[test]
fn output_for_a_namespace_matches_its_schemas() {
    for backend in scope::of(backends().collect(), 1) {
        let namespace = Namespace::new();
        let flags = with(&["apply", "--backend", backend], &["--redirect-dns", "--dns-servers", "10.0.0.53"]);
        let check = [&["diff"], &flags[1..]].concat();
        printed(&namespace, "status-kernel", 0, &["status", "--kernel"]);
        printed(&namespace, "status", 3, &["status"]);
        printed(&namespace, "diff", 3, &check);
        let change = [&flags[..], &["--output", "json"]].concat();
        valid("change", &document(&run(&namespace, &change), &change, 0));
        printed(&namespace, "diff", 0, &check);
        printed(&namespace, "diff", 3, &[&check[..], &["-d", "81"]].concat());
        printed(&namespace, "explain", 0, &["explain", "--live", "--pod-ips", "10.77.0.2", "10.0.0.5:443"]);
        let status = printed(&namespace, "status", 1, &["status"]);
        assert!(!status["rows"].as_array().expect("a list").is_empty(), "{backend}: {status:#}");
        // Two runs of `verify` use different ports, so only one format is compared.
        let verify = [&["verify"], &flags[3..], &["--output", "json"]].concat();
        let tried: Value = serde_json::from_str(&run(&namespace, &verify).stdout).expect("JSON");
        valid("verify", &tried);
        assert!(tried["calls"].as_array().expect("a list").len() > 3, "{backend}: {tried:#}");
        let again = run(&namespace, &[&flags[..], &["--output=yaml"]].concat());
        let again: Value = serde_saphyr::from_str(&again.stdout).expect("YAML");
        valid("change", &again);
        assert_eq!((&again["changed"], &again["backend"]), (&false.into(), &backend.into()));
        let clean = ["clean", "-o", "json"];
        valid("change", &document(&run(&namespace, &clean), &clean, 0));
    }
}

#[test]
fn repairs_and_traces_match_their_schemas() {
    let pod = Namespace::new();
    pod.eth0("10.77.0.2/24");
    let path = pod.path();
    let repair = with(
        &["cni", "repair", "--netns", &path],
        &["-u", "1337", "--iptables-trace-logging", "--output", "json"],
    );
    valid("change", &document(&run(&Namespace::new(), &repair), &repair, 0));
    for (encoding, separator) in [("json", ""), ("yaml", "---\n")] {
        let trace = ["trace", "-o", encoding, "--count", "2", "--for", "30s"];
        let start = || Command::new(BINARY).args(trace).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = pod.run(start).expect("the trace starts");
        // The trace reports no readiness, so packets are sent until it ends.
        while child.try_wait().expect("a child").is_none() {
            pod.run(|| {
                drop(TcpStream::connect_timeout(&([10, 77, 0, 3], 443).into(), Duration::from_millis(20)));
            });
        }
        let text = Outcome::from(child.wait_with_output().expect("the trace has ended")).stdout;
        let documents: Vec<Value> = match separator {
            "" => text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
            _ => text
                .split(separator)
                .skip(1)
                .map(|part| serde_saphyr::from_str(part).expect("YAML"))
                .collect(),
        };
        assert_eq!(documents.len(), 2, "{text}");
        documents.iter().for_each(|document| valid("trace", document));
    }
}

/// A rule with an uncertain owner is kept; the report and the failure both list it.
#[test]
fn incomplete_clean_is_reported_and_fails() {
    let namespace = Namespace::new();
    namespace.ip("rule add from 10.9.9.9 lookup 77 protocol 137");
    let arguments = ["clean", "--output", "json"];
    let output = run(&namespace, &arguments);
    let report = document(&output, &arguments, 1);
    valid("change", &report);
    assert_eq!(report["left"].as_array().map(Vec::len), Some(1), "{report}");
    let failure = failure(&output);
    assert_eq!(failure["error"]["exit_code"], 1);
    // Text output has no report; the failure lists the rule.
    let text = run(&namespace, &["clean"]);
    assert_eq!((text.code, text.stdout.as_str()), (Some(1), ""));
    assert!(text.stderr.contains("error: sidecar-init's rules are removed; rules that"));
}

fn failure(output: &Outcome) -> Value {
    let text = &output.stderr;
    let last = text.lines().last().unwrap_or_default();
    let failure: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}"));
    valid("error", &failure);
    failure
}

#[test]
fn failures_are_json_where_a_format_is_given() {
    let namespace = Namespace::new();
    let bad = with(&["apply"], &["-p", "0", "-x", "nonsense", "--output", "yaml"]);
    let failed = failure(&run(&namespace, &bad));
    assert_eq!((&failed["error"]["exit_code"], &failed["error"]["causes"]), (&2.into(), &json!([])));
    let options: Vec<&str> = failed["problems"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|fix| fix["option"].as_str())
        .collect();
    assert_eq!(options, ["--istio-service-exclude-cidr", "--envoy-port"]);
    assert_eq!(failed["problems"][0]["value"], "nonsense");
    for arguments in [
        with(&["istio-iptables"], &["-p", "0", "--log_as_json"]),
        with(&["explain"], &["--output", "json", "--expect", "captured"]),
        with(&["render"], &["--output", "json", "-b", "x"]),
        vec!["clean", "-o", "json", "--network-namespace", "nowhere"],
        vec!["trace", "-o", "yaml", "--count", "x"],
        vec!["cni", "repair", "--pid", "0", "--output", "json"],
    ] {
        let output = run(&namespace, &arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}");
        let failed = failure(&output);
        assert_ne!(failed["problems"], json!([]), "{arguments:?}");
    }
    // Failures after validation have causes, not problems.
    let arguments =
        ["explain", "--from-save", "/nowhere", "--output", "json", "--pod-ips", "10.77.0.2", "10.0.0.5:443"];
    let failed = failure(&run(&namespace, &arguments));
    assert_eq!((&failed["error"]["exit_code"], &failed["problems"]), (&1.into(), &json!([])));
    // Without a format, failures are sentences.
    let output = run(&namespace, &with(&["apply"], &["-p", "0"]));
    assert!(output.stderr.starts_with("error: --envoy-port: "), "{}", output.stderr);
}

#[test]
fn short_flag_o_is_the_format_except_where_upstream_uses_it() {
    let namespace = Namespace::new();
    let output = run(&namespace, &["clean", "-ojson"]);
    valid("change", &document(&output, &["clean"], 0));
    let output = run(&namespace, &with(&["diff"], &["-o", "json"]));
    let text = output.stderr.clone();
    assert_eq!(output.code, Some(2));
    assert!(text.contains("\"json\" is not a port") && text.contains("write --output json"), "{text}");
}

#[test]
fn each_document_is_linked_by_the_overview() {
    let text = read("docs/schemas/README.md");
    for entry in fs::read_dir(Path::new(ROOT).join("docs/schemas")).expect("the folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        assert!(name == "README.md" || text.contains(&format!("]({name})")), "{name}");
    }
    let example =
        text.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    valid("error", &serde_json::from_str(example).expect("JSON"));
}

/// Commands may fail, but not with invalid input.
#[test]
fn commands_of_the_troubleshooting_page_are_valid() {
    let pod = Namespace::new();
    pod.eth0("10.1.2.3/24");
    let text = read("docs/troubleshooting.md");
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: Vec<&str> = blocks.flat_map(str::lines).collect();
    assert!(commands.len() > 8, "{commands:?}");
    let manifest = Path::new(ROOT).join("docker/pod-istio.yaml");
    for command in commands {
        let script =
            command.replacen("sidecar-init", BINARY, 1).replace("pod.yaml", &manifest.display().to_string());
        let output = pod.output("sh", &["-c", &script], "");
        let ended = output.code;
        assert!(matches!(ended, Some(0 | 1 | 3)), "{command}: {}", output.stderr);
    }
}
