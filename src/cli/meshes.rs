//! `docs/meshes.md`: what each mesh lets people say, made from the tables of settings and compared with the file.
//!
//! `UPDATE_GOLDENS=1` writes it instead.

use super::reference::setting;
use policy::mesh::{Feature, Mesh};
use policy::settings::Topic;
use std::fmt::Write;

const HEAD: &str = "# Meshes

`sidecar-init` makes the rules of four meshes. `--mesh` says which:

| mesh | its rules are those of | as a drop-in |
|---|---|---|
| `istio` | `istio-iptables`, for Istio's sidecar; the default | `sidecar-init istio-iptables`, [an init container](init-container.md) |
| `linkerd` | linkerd's `proxy-init` | `sidecar-init linkerd-init`, [linkerd](linkerd.md) |
| `kuma` | `kumactl install transparent-proxy` | `sidecar-init kuma-init`, [Kuma](kuma.md) |
| `ambient` | the part of Istio's node agent inside of pods | none, the agent is no command: [ambient mode](ambient.md) |

Every command takes it: `apply`, `check`, `clean`, `explain`, `lint`, `render`, `status`, `probe`, `sandbox` and the rest
know no mesh by name. A manifest (`-f`) and the CNI plugin tell the mesh by what a pod says: its labels, annotations and
containers, or `sidecar-init/mesh`, which wins.

```sh
sidecar-init render --mesh linkerd --pod-ips 10.0.0.1
sidecar-init explain --mesh kuma --pod-ips 10.0.0.1 --destination 10.96.0.1:80
```

Two meshes in one network namespace would take each other's packets. `apply` refuses where another mesh captures, and says
how to go on: `apply --replace` puts one in the place of the other, and `clean --mesh` removes one of them. Where two capture all
the same, `check`, `status` and `doctor` name both.

## What each can say

A flag stands where the mesh has one for it, or the variable of a setting without a flag. A dash means that the mesh can't
say it. A test makes this table from the tables of settings.

";

fn page() -> String {
    let mut text = HEAD.to_owned();
    let names = Mesh::ALL.iter().map(|mesh| format!(" {mesh} |")).collect::<String>();
    let _ = writeln!(text, "| |{names}\n|---|{}", "---|".repeat(Mesh::ALL.len()));
    for &feature in Feature::ALL {
        let cells = Mesh::ALL.iter().map(|mesh| {
            let of_feature = mesh.settings().iter().filter(|row| row.features.contains(&feature));
            let said: Vec<String> = of_feature.map(|row| format!("`{}`", row.option())).collect();
            if said.is_empty() { " - |".to_owned() } else { format!(" {} |", said.join(" ")) }
        });
        let _ = writeln!(text, "| {} |{}", feature.title(), cells.collect::<String>());
    }
    text.push_str("\nIstio's settings stand in the [reference](reference.md).\n");
    for mesh in Mesh::ALL.iter().filter(|mesh| **mesh != Mesh::default()) {
        let _ = writeln!(text, "\n## Settings of {mesh}");
        let capture = mesh.settings().iter().filter(|row| row.topic == Topic::Capture);
        capture.for_each(|row| text.push_str(&setting(row)));
        let own: Vec<_> = mesh.settings().iter().filter(|row| row.topic == Topic::DropIn).collect();
        if !own.is_empty() {
            text.push_str("\nTaken by the drop-in alone:\n");
        }
        own.into_iter().for_each(|row| text.push_str(&setting(row)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::page;
    use std::fs;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/meshes.md");

    #[test]
    fn the_page_of_meshes_is_made_from_the_tables() {
        let text = page();
        if std::env::var_os("UPDATE_GOLDENS").is_some() {
            fs::write(FILE, &text).expect("the page is written");
        }
        let written = fs::read_to_string(FILE).unwrap_or_default();
        assert!(text == written, "docs/meshes.md is not up to date: run this test with UPDATE_GOLDENS=1");
    }
}
