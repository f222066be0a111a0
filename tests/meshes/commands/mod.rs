//! Every command over every mesh: none of them knows a mesh by name, so all have to work for each.
//!
//! Needs root; never skips.

use crate::support;

mod together;
mod traffic;

use mesh::Mesh;
use support::namespace::{Namespace, run};
use support::program::{Run, binary};

const IPS: [&str; 2] = ["--pod-ips", "10.1.2.3,fd00::3"];
const BACKENDS: [&str; 3] = ["nftables", "iptables-nft", "iptables-legacy"];

fn output_of(mesh: Mesh, words: &[&str]) -> String {
    let mut call = binary(words);
    call.args(["--mesh", mesh.name()]).args(IPS);
    call.outcome().with(0, &format!("{mesh}: {words:?}")).text()
}

fn whole(mesh: Mesh) -> Vec<&'static str> {
    match mesh {
        Mesh::Istio => vec!["-b", "*", "-i", "*", "--dual-stack", "--redirect-dns", "--capture-all-dns"],
        Mesh::Kuma => vec!["--redirect-all-dns-traffic"],
        Mesh::Linkerd | Mesh::Ambient => Vec::new(),
    }
}

fn within(namespace: &Namespace, mesh: Mesh, words: &[&str], code: i32) -> String {
    run(namespace, words).with(code, &format!("{mesh}: {words:?}")).text()
}

/// Who errs in the mesh, or takes the flags of one for those of another, is told what to write, before anything is touched.
#[test]
fn what_is_wrong_about_a_mesh_is_reported_with_its_remedy() {
    let commands =
        ["apply", "diff", "clean", "explain", "lint", "render", "status", "verify", "trace", "sandbox"];
    for command in commands {
        let text = binary(&[command, "--mesh", "ambiant"]).outcome().with(2, command).text();
        assert!(text.contains("\"ambiant\" is not a mesh; did you mean ambient?"), "{command}: {text}");
    }
    let says = |words: &[&str], expected: &[&str]| {
        let text = binary(words).args(IPS).outcome().with(2, "wrong flags").text();
        assert!(expected.iter().all(|line| text.contains(line)), "{words:?}: {text}");
    };
    // What is misspelt is what it was meant for, as far as the other flags go.
    says(&["lint", "--mesh", "ambiant", "--ingress"], &["error: 1 problem"]);
    says(
        &["render", "--mesh", "linkerd", "-i", "*", "-b", "80"],
        &[
            "-i: is a flag of istio, and linkerd has nothing like it; drop it, or give --mesh istio",
            "-b: is a flag of istio; for linkerd use --ports-to-redirect",
        ],
    );
    let add = "--inbound-ports-to-ignore: is a flag of linkerd; add --mesh linkerd";
    says(&["explain", "--inbound-ports-to-ignore", "80", "8080"], &[add]);
    says(&["--mesh", "kuma", "lint"], &["--mesh: belongs after a command: sidecar-init COMMAND --mesh"]);
}

/// What makes Istio capture; the others do without a word.
fn usual(mesh: Mesh) -> Vec<&'static str> {
    match mesh {
        Mesh::Istio => vec!["-b", "*", "-i", "*"],
        Mesh::Linkerd | Mesh::Kuma | Mesh::Ambient => Vec::new(),
    }
}

#[test]
fn a_sandbox_of_each() {
    for &mesh in Mesh::ALL {
        let tour = binary(&["sandbox", "--mesh", mesh.name()]).outcome();
        let text = tour.with(0, &format!("{mesh}: the tour")).text();
        assert!(text.contains("captured"), "{mesh}:\n{text}");
        assert!(text.contains("The proxy's own calls have to leave the pod"), "{mesh}:\n{text}");
    }
}
