//! A real kernel's verdicts: in the session, the real `sidecar-init` runs as the container's program, in a network namespace.

#[path = "../kubectl/object.rs"]
mod object;

use object::object;
use testkit::{command_line::Program, pod_namespace::PodNamespace, program_beside};

const PROGRAM: Program = Program { path: env!("CARGO_BIN_EXE_kubectl-capture"), name: "kubectl-capture" };

#[test]
fn a_pods_kernel_answers() {
    // Beside the plugin, where the session expects it.
    program_beside(PROGRAM.path, "sidecar-init");
    let namespace = PodNamespace::new("10.1.2.3");
    let (pod, agents) = (object("pod.json"), object("agents.json"));
    let container = pod["status"]["containerStatuses"][0]["containerID"].as_str().expect("a container");
    PROGRAM.sessions(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/privileged/kernel.txt"),
        &[
            ("POD", &pod.to_string()),
            ("AGENTS", &agents.to_string()),
            ("CONTAINER", container),
            ("NAMESPACE", &namespace.path()),
        ],
    );
}
