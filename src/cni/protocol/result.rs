//! The answer to ADD: the result of the previous plugins, unchanged.

use super::CniVersion;
use serde_json::{Map, Value, value::RawValue};

/// The result for a network configuration's version. That of the plugins before us is passed on to the byte where it is
/// of this version; else it is put into the form of this one. Without any, an empty one.
pub(crate) fn result(before: Option<&RawValue>, version: CniVersion) -> String {
    let Some(before) = before else { return empty(version) };
    match serde_json::from_str::<Map<String, Value>>(before.get()) {
        Ok(fields) if fields.get("cniVersion").and_then(Value::as_str) != Some(version.name()) => {
            converted(fields, version)
        }
        // Beyond the depth that we read, it is still theirs.
        Ok(_) | Err(_) => before.get().to_owned(),
    }
}

fn empty(version: CniVersion) -> String {
    let name = version.name();
    format!(r#"{{"cniVersion":"{name}","interfaces":[],"ips":[],"routes":[],"dns":{{}}}}"#)
}

/// Versions differ in `ips`, whose items have a `version` (the family) before 1.0.0 only.
fn converted(mut fields: Map<String, Value>, version: CniVersion) -> String {
    fields.insert("cniVersion".to_owned(), version.name().into());
    let ips = fields.get_mut("ips").and_then(Value::as_array_mut);
    for ip in ips.into_iter().flatten().filter_map(Value::as_object_mut) {
        if version >= CniVersion::V1_0_0 {
            ip.remove("version");
        } else {
            let is_v6 =
                ip.get("address").and_then(Value::as_str).is_some_and(|address| address.contains(':'));
            ip.entry("version").or_insert_with(|| if is_v6 { "6" } else { "4" }.into());
        }
    }
    Value::Object(fields).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, version: CniVersion, expected: &str) {
        let before: Box<RawValue> = serde_json::from_str(before).expect("JSON");
        assert_eq!(result(Some(&before), version), expected);
    }

    #[test]
    fn a_result_of_this_version_is_passed_on_to_the_byte() {
        let text = "{ \"ips\":[{\"address\" : \"10.0.0.2/24\", \"version\":\"4\"}],\t\"cniVersion\": \"0.4.0\",\"x\":1e2}";
        check(text, CniVersion::V0_4_0, text);
        let deep = format!(r#"{{"cniVersion":"1.0.0","deep":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
        check(&deep, CniVersion::V1_0_0, &deep);
    }

    #[test]
    fn a_result_of_another_version_is_put_into_the_form_of_this_one() {
        let old = r#"{"cniVersion":"0.4.0","ips":[{"address":"fd00::2/64","version":"6"}]}"#;
        let new = r#"{"cniVersion":"1.0.0","ips":[{"address":"fd00::2/64"}]}"#;
        check(old, CniVersion::V1_0_0, new);
        check(new, CniVersion::V0_4_0, old);
        check(r#"{"ips":"odd"}"#, CniVersion::V1_1_0, r#"{"cniVersion":"1.1.0","ips":"odd"}"#);
    }
}
