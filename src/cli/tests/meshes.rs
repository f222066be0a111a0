//! `docs/meshes.md`: the settings of each mesh, made from the tables of settings.

use super::reference;
use crate::cli::tree;
use mesh::settings::{SettingRow, Topic};
use mesh::{Feature, Mesh};
use std::fmt::Write;

const HEAD: &str = "# Meshes

`sidecar-init` sets the rules of four meshes, selected by `--mesh`:

| mesh | sets the rules of | drop-in |
|---|---|---|
| `istio` (default) | `istio-iptables`, for Istio's sidecar | `istio-iptables`: [init container](init-container.md) |
| `linkerd` | linkerd's `proxy-init` | `linkerd-init`: [linkerd](linkerd.md) |
| `kuma` | `kumactl install transparent-proxy` | `kuma-init`: [Kuma](kuma.md) |
| `ambient` | Istio's node agent, inside of pods | none: [ambient mode](ambient.md) |

All general commands take `--mesh`. For a manifest (`-f`) and in the CNI plugin, the pod's labels, annotations and containers
determine the mesh; the annotation `sidecar-init/mesh` overrides them.

```sh
sidecar-init render --mesh linkerd --pod-ips 10.0.0.1
sidecar-init explain --mesh kuma --pod-ips 10.0.0.1 --destination 10.96.0.1:80
```

Two meshes cannot capture in one network namespace. `apply` refuses where another mesh captures; `apply --replace` replaces that
mesh, and `clean --mesh` removes one mesh. `diff` and `status` report a second mesh.

## Features

The table lists the flags for each feature, or the variable of a setting without a flag. It is generated from the code.

";

fn page() -> String {
    let mut text = HEAD.to_owned();
    let names = Mesh::ALL.iter().map(|mesh| format!(" {mesh} |")).collect::<String>();
    let _ = writeln!(text, "| |{names}\n|---|{}", "---|".repeat(Mesh::ALL.len()));
    for &feature in Feature::ALL {
        let cells = Mesh::ALL.iter().map(|mesh| {
            let of_feature = mesh.settings().iter().filter(|row| row.features.contains(&feature));
            let options: Vec<String> = of_feature.map(|row| format!("`{}`", row.option())).collect();
            if options.is_empty() { " |".to_owned() } else { format!(" {} |", options.join(" ")) }
        });
        let _ = writeln!(text, "| {} |{}", feature.title(), cells.collect::<String>());
    }
    text.push_str("\nThe [reference](reference.md) lists Istio's settings.\n");
    for mesh in Mesh::ALL.iter().filter(|mesh| **mesh != Mesh::default()) {
        let _ = writeln!(text, "\n## Settings of {mesh}\n");
        let capture = mesh.settings().iter().filter(|row| row.topic == Topic::Capture);
        capture.for_each(|row| text.push_str(&setting(row)));
        let own = mesh.settings().iter().filter(|row| row.topic == Topic::DropIn);
        let own: Vec<String> = own.map(SettingRow::option).collect();
        if !own.is_empty() {
            let _ = writeln!(text, "\nThe drop-in also takes {}; see its `--help`.", reference::code(&own));
        }
    }
    text
}

fn setting(row: &SettingRow) -> String {
    let line = reference::setting(row);
    match tree::pod_source(row) {
        Some(pod) => format!("{} Pod: {pod}.\n", line.trim_end()),
        None => line,
    }
}

#[test]
fn the_page_of_meshes_is_made_from_the_tables() {
    testkit::golden(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/meshes.md"), &page());
}
