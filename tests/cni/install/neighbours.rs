//! Programs beside the installer: the entry's position, and each program's warning in the log, at `/readyz` and in metrics.

use crate::cni::install::http::Scene;
use crate::cni::install::node::Node;

const CALICO: &str =
    r#"{"name":"pods","cniVersion":"0.3.1","plugins":[{"type":"calico"},{"type":"portmap"}]}"#;

#[test]
fn the_delegate_of_multus_gets_the_entry_where_it_works_there() {
    let multus = |kind: &str, more: &str| {
        format!(r#"{{"name":"multus-cni-network","cniVersion":"0.3.1","type":"{kind}",{more}}}"#)
    };
    let by_path = r#""clusterNetwork":"/host/etc/cni/net.d/10-calico.conflist""#;
    let copied = format!(r#""delegates":[{CALICO}]"#);
    let copied_with_entry = copied.replace(r#"{"type":"portmap"}"#, r#"{"type":"sidecar-cni"}"#);
    let kubeconfig = r#"{"kubeconfig":"/etc/cni/net.d/k"}"#;
    let (own, delegate) = ("00-multus.conflist", "10-calico.conflist");
    for (text, entry, expected, warning) in [
        (multus("multus-shim", by_path), kubeconfig, &[delegate][..], ""),
        (multus("multus", r#""clusterNetwork":"pods""#), kubeconfig, &[delegate], ""),
        (multus("multus", &copied), r#"{"capture":{}}"#, &[own, delegate], "restart Multus"),
        (multus("multus", &copied_with_entry), kubeconfig, &[delegate], ""),
        (multus("multus-shim", by_path), "{}", &[own], "set kubeconfig in the entry"),
        (multus("multus", r#""clusterNetwork":"other""#), kubeconfig, &[own], "its delegate \"other\""),
        (multus("multus", r#""delegates":[]"#), kubeconfig, &[own], "its delegate \"\""),
    ] {
        let node = Node::new();
        node.put("00-multus.conf", &text);
        node.succeed("install", &[]);
        node.put(delegate, CALICO);
        let log = node.call("install", &["--entry", entry]).with(0, "install").stderr;
        let all = node.configurations_by_name();
        let has_entry = |text: &str| text.contains(r#"{"type":"sidecar-cni","#);
        let with: Vec<&String> =
            all.iter().filter(|(_, text)| has_entry(text)).map(|(name, _)| name).collect();
        assert_eq!(with, expected, "{text}");
        assert!(log.contains(warning) && log.contains("by Multus") != warning.is_empty(), "{text}: {log}");
        node.succeed("uninstall", &[]);
        let before = [("00-multus.conf", text.as_str()), (delegate, CALICO)];
        assert_eq!(node.all(), before.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
    }
}

#[test]
fn a_program_that_removes_the_entry_again_and_again_is_named_and_ends_readiness() {
    for (plugin, remedy) in [
        (
            "cilium-cni",
            "writes its plugins cilium-cni, portmap; configure it to keep other plugins (Cilium: cni.exclusive: false)",
        ),
        ("calico", "calico, portmap"),
    ] {
        let (scene, text) = (Scene::new(), CALICO.replace("calico", plugin));
        for _ in 0..4 {
            scene.node.put("10-a.conflist", &text);
            scene.running.until("the entry", || scene.node.read("10-a.conflist").contains("sidecar-cni"));
        }
        scene.running.until("the warning", || scene.get("/readyz").contains("repeatedly removed"));
        let page = scene.get("/readyz");
        assert!(page.starts_with("HTTP/1.1 503 ") && page.contains(remedy), "{page}");
        assert!(scene.get("/metrics").contains("sidecar_cni_install_warnings{cause=\"removal\"} 1\n"));
        let log = scene.running.log();
        assert_eq!(log.matches(remedy).count(), 1, "{log}");
        // A new version of the file is not a removal.
        scene.node.put("10-a.conflist", &text.replace("pods", "new"));
        scene.running.until("readiness", || scene.get("/readyz").starts_with("HTTP/1.1 200 "));
    }
}

#[test]
fn a_second_mesh_is_named() {
    for plugin in ["istio-cni", "linkerd-cni", "kuma-cni"] {
        let scene = Scene::new();
        scene.node.put("10-a.conflist", &CALICO.replace("portmap", plugin));
        scene.running.until("readiness", || scene.get("/readyz").starts_with("HTTP/1.1 200 "));
        let also = format!("10-a.conflist also calls {plugin}, so two plugins");
        assert!(scene.get("/readyz").contains(&also) && scene.running.log().contains(&also));
        assert!(scene.get("/metrics").contains("sidecar_cni_install_warnings{cause=\"second_mesh\"} 1\n"));
    }
}
