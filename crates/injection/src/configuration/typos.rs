//! Keys that are almost known ones. Values and MeshConfig have many keys that are not read here, so an unknown key is no
//! mistake; one that differs from a known one by a letter or two is.

use crate::mesh_config::{camel, defaults};
use mesh::settings::nearest_value;
use serde_json::Value;

/// Warnings about values; `name` is that of the text.
pub(super) fn of_values(name: &str, given: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    compare(name, "", given, &defaults::values(), &mut warnings);
    warnings
}

/// Warnings about a MeshConfig. Its ProxyConfig is not looked at: all of that is known.
pub(super) fn of_mesh(name: &str, given: &Value) -> Vec<String> {
    let mut known = defaults::mesh();
    known["defaultConfig"] = Value::Null;
    let mut warnings = Vec::new();
    compare(name, "", &camel(given), &known, &mut warnings);
    warnings
}

fn compare(name: &str, path: &str, given: &Value, known: &Value, warnings: &mut Vec<String>) {
    let (Value::Object(given), Value::Object(known)) = (given, known) else { return };
    for (key, value) in given {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match known.get(key) {
            // These are Kubernetes' fields, not Istio's settings.
            Some(_) if key == "resources" => {}
            Some(known) => compare(name, &path, value, known, warnings),
            None => {
                let names = known.keys().map(String::as_str);
                let absent: Vec<&str> = names.filter(|name| !given.contains_key(*name)).collect();
                let near = nearest_value(key, &absent);
                warnings.extend(
                    near.map(|near| format!("{name}: {path} is an unknown setting; did you mean {near}?")),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(warnings: &[String], expected: &[&str]) {
        assert_eq!(warnings, expected);
    }

    #[test]
    fn names_that_are_almost_known_are_reported() {
        let given = json!({"globl": {}, "global": {"hubb": "x", "proxy": {"imge": "x"}}});
        let expected = [
            "file: global.hubb is an unknown setting; did you mean hub?",
            "file: global.proxy.imge is an unknown setting; did you mean image?",
        ];
        check(&of_values("file", &given), &expected);
        let given = json!({"global": {"proxy": {"ancludeInboundPorts": "x"}}});
        let nearest =
            "file: global.proxy.ancludeInboundPorts is an unknown setting; did you mean includeInboundPorts?";
        check(&of_values("file", &given), &[nearest]);
        let globl = "file: globl is an unknown setting; did you mean global?";
        check(&of_values("file", &json!({"globl": {}})), &[globl]);
        let given = json!({"defaultConfg": {}, "root_namespac": "x"});
        let expected = [
            "file: defaultConfg is an unknown setting; did you mean defaultConfig?",
            "file: rootNamespac is an unknown setting; did you mean rootNamespace?",
        ];
        check(&of_mesh("file", &given), &expected);
    }

    #[test]
    fn what_is_known_to_others_is_not() {
        let given = json!({
            "defaultRevision": "", "revisionTags": [], "experimental": {}, "ownerName": "", "profile": "demo",
            "global": {"configValidation": true, "istiod": {}, "jwtPolicy": "", "networkPolicy": {}, "platform": "",
                "omitSidecarInjectorConfigMap": false, "tracer": {}, "waypoint": {}, "remotePilotAddress": "",
                "proxy": {"autoInject": "enabled", "enableCoreDump": false, "seccompProfile": {"type": "x"},
                    "resources": {"limit": {}}}},
            "pilot": {"env": {"EN": "1"}, "tag": "", "hub": "", "cpu": {}, "cni": {"enabled": false}},
            "guard": {"image": "x"},
        });
        check(&of_values("file", &given), &[]);
        let given = json!({"accessLogFile": "", "enableAutoMtls": true, "ingressSelector": "", "trustDomainAliases": [],
            "tcpKeepalive": {}, "proxyHttpPort": 0, "extensionProviders": [], "defaultProviders": {}, "ca": {}});
        check(&of_mesh("file", &given), &[]);
    }
}
