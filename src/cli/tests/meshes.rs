//! `docs/meshes.md`: the features of each mesh, generated from the tables of settings.

use mesh::{Feature, Mesh};
use std::fmt::Write;

const HEAD: &str = "# Meshes

`sidecar-init` sets the rules of four meshes, selected by `--mesh`:

| mesh | sets the rules of | drop-in |
|---|---|---|
| `istio` (default) | `istio-iptables`, for Istio's sidecar | `istio-iptables`: [init container](init-container.md) |
| `linkerd` | linkerd's `proxy-init` | `linkerd-init`: [linkerd](linkerd.md) |
| `kuma` | `kumactl install transparent-proxy` | `kuma-init`: [Kuma](kuma.md) |
| `ambient` | Istio's node agent, in pods | none: [ambient mode](ambient.md) |

Other commands take `--mesh`. For a manifest (`-f`) and in the CNI plugin, the pod's labels, annotations and containers determine the
mesh; the annotation `sidecar-init/mesh` overrides them.

```sh
sidecar-init explain --mesh kuma --pod-ips 10.0.0.1 10.96.0.1:80
```

Two meshes cannot capture in the same network namespace: `apply` fails, unless `--replace` replaces the other mesh. `clean --mesh` removes
one mesh.

## Features

Each feature's flags, or the variable of a setting without a flag, generated from the code:

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
    text.push_str("\n`sidecar-init apply --mesh NAME --help` lists the settings of a mesh.\n");
    text
}

#[test]
fn page_of_meshes_matches_the_tables() {
    testkit::golden(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/meshes.md"), &page());
}
