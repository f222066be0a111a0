//! Every command with every mesh: no command refers to a mesh by name, so each must work for all. Needs root; never skips.

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

/// Flags for Istio to capture; other meshes need none.
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
        assert!(text.contains("The proxy's calls must leave the pod"), "{mesh}:\n{text}");
    }
}
