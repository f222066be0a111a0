//! Injection end to end: `sidecar-injector` adds containers to a pod, and the test runs them like a kubelet. The init container's
//! arguments set the rules, and Envoy starts with its own container's arguments.

use crate::support::program::{BINARY, PATH, Run, fed};
use crate::support::rows::rows;
use crate::{
    meshes::envoy::{
        calls::calls_are_captured_or_pass,
        proxy::{Launch, configuration},
        stage::{RUN_LIMIT, Stage},
    },
    support::{folder::Folder, namespace::Namespace, setting::Mode, traffic::Identity},
};
use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt, process::Command};
use testkit::program_beside;

const MANIFEST: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {sidecar.istio.io/interceptionMode: MODE}
    spec:
      containers:
        - name: web # answers at 8080
          image: example/web
          ports: [{containerPort: 8080}]
";
const CONFIG: &str = "policy: enabled\ndefaultTemplates: [envoy]\n";
const MESH: &str = "defaultConfig: {proxyMetadata: {ISTIO_DUAL_STACK: 'true'}}\n";

rows! {
    #[ignore = "needs Envoy"]
    an_injected_pod_has_its_traffic_captured_by_redirect: check(Mode::Redirect);
    #[ignore = "needs Envoy"]
    an_injected_pod_has_its_traffic_captured_by_tproxy: check(Mode::Tproxy);
}

fn check(mode: Mode) {
    let files = files(mode);
    let pod = injected(&files, mode);
    let init = container(&pod, "initContainers", "istio-init");
    let envoy = container(&pod, "containers", "envoy");
    let stage = Stage::with(mode, |inside| run(inside, init), launch(envoy, &files));
    calls_are_captured_or_pass(&stage);
}

/// Files that a pod would have mounted, readable by every user.
fn files(mode: Mode) -> Folder {
    let files = Folder::new("injected");
    files.write("config", CONFIG);
    files.write("mesh", MESH);
    fs::copy(configuration(mode), files.file("envoy.yaml")).expect("writable");
    fs::set_permissions(files.file("envoy.yaml"), fs::Permissions::from_mode(0o644)).expect("ours");
    files
}

fn injected(files: &Folder, mode: Mode) -> Value {
    let mut injector = Command::new(program_beside(BINARY, "sidecar-injector"));
    injector.args(["inject", "-f", "-", "--inject-config", &files.file("config")]);
    injector.args(["--mesh-config", &files.file("mesh")]);
    let output = fed(injector, MANIFEST.replace("MODE", mode.name()));
    let printed = &output.stderr;
    assert!(output.succeeded(), "{printed}");
    let text = output.stdout;
    assert!(text.contains("- name: web # answers at 8080"), "the author's lines stay: {text}");
    let documents = mesh::pod::values("the injected manifest", &text).expect("YAML");
    documents[0]["spec"]["template"].clone()
}

fn container<'a>(pod: &'a Value, list: &str, name: &str) -> &'a Value {
    let found = pod["spec"][list].as_array().into_iter().flatten().find(|item| item["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} among {list}: {pod:#}"))
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|word| word.as_str().expect("a string").to_owned()).collect()
}

fn number(container: &Value, field: &str) -> u32 {
    let number = container["securityContext"][field].as_u64();
    u32::try_from(number.unwrap_or_else(|| panic!("{field}: {container:#}"))).expect("an id")
}

fn capabilities(container: &Value) -> String {
    let printed = &container["securityContext"]["capabilities"];
    assert_eq!(texts(&printed["drop"]), ["ALL"], "{container:#}");
    let added =
        texts(&printed["add"]).iter().map(|name| format!(",+{}", name.to_lowercase())).collect::<String>();
    format!("-all{added}")
}

/// Runs the init container: the binary takes the place of the image's `istio-iptables`.
fn run(inside: &Namespace, init: &Value) {
    let mut program = Command::new("timeout");
    program.env_clear().env("PATH", PATH);
    for variable in init["env"].as_array().into_iter().flatten() {
        let text = |key: &str| variable[key].as_str().unwrap_or_else(|| panic!("{key}: {variable}"));
        program.env(text("name"), text("value"));
    }
    let output = program
        .args([
            RUN_LIMIT,
            "nsenter",
            &format!("--net={}", inside.path()),
            "setpriv",
            "--clear-groups",
            "--inh-caps=-all",
        ])
        .arg(format!("--bounding-set={}", capabilities(init)))
        .args(["--reuid", &number(init, "runAsUser").to_string()])
        .args(["--regid", &number(init, "runAsGroup").to_string()])
        .arg(BINARY)
        .args(texts(&init["args"]))
        .outcome();
    output.with(0, &format!("{:?}", texts(&init["args"])));
}

/// Starts Envoy like a kubelet, except for the configuration's path.
fn launch(envoy: &Value, files: &Folder) -> Launch {
    assert_eq!(envoy["command"], serde_json::json!(["envoy"]), "{envoy:#}");
    let mut arguments = texts(&envoy["args"]);
    let mounted = arguments.iter_mut().find(|word| *word == "/etc/envoy/envoy.yaml");
    *mounted.expect("where the ConfigMap is mounted") = files.file("envoy.yaml");
    let identity = Identity { uid: number(envoy, "runAsUser"), gid: number(envoy, "runAsGroup") };
    Launch { identity, capabilities: capabilities(envoy), arguments }
}
