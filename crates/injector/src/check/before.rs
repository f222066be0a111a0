//! Requirements of an installation: the API server's version, the permissions to install, and free names.

use super::CheckedInstallation;
use super::finding::{InstallationFinding, InstallationTopic};
use super::rights::{Right, collection, granted, name, title};
use serde_json::Value;

/// Object of the installation, and the cluster's object of the same name.
pub(super) struct ExistingObject {
    pub(super) object: Value,
    pub(super) answer: kube::Result<Option<Value>>,
}

const INSTANCE: &str = "app.kubernetes.io/instance";
/// First minor version of Kubernetes 1 with `unhealthyPodEvictionPolicy` in PodDisruptionBudgets. Without the policy, nodes
/// whose pods never become ready are not drained.
const RECOMMENDED_MINOR: u32 = 27;

pub(super) fn version(version: &Value) -> InstallationFinding {
    let topic = InstallationTopic::Cluster;
    let text =
        format!("the API server is {}", version["gitVersion"].as_str().unwrap_or("an unknown version"));
    // Some providers append a plus sign.
    let minor: String =
        version["minor"].as_str().unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    match minor.parse::<u32>() {
        Ok(RECOMMENDED_MINOR..) if version["major"] == "1" => topic.ok(text),
        _ => topic.warn(
            text,
            format!(
                "expected Kubernetes 1.{RECOMMENDED_MINOR} or newer: older versions ignore unhealthyPodEvictionPolicy of \
                 PodDisruptionBudgets, so an unready injector blocks its node's drain"
            ),
        ),
    }
}

pub(super) async fn existing(checked: &CheckedInstallation) -> Vec<ExistingObject> {
    let mut found = Vec::new();
    for object in &checked.objects {
        let (_, _, path) = collection(object);
        let answer = checked.api.get(&format!("{path}/{}", name(object))).await;
        found.push(ExistingObject { object: object.clone(), answer });
    }
    found
}

/// Permissions that `kubectl apply` needs, including every permission that the roles grant.
pub(super) async fn rights(
    checked: &CheckedInstallation,
    existing: &[ExistingObject],
) -> Vec<InstallationFinding> {
    let topic = InstallationTopic::Rights;
    // Each right's reason is empty for the object itself.
    let mut needed: Vec<(Right, String)> = Vec::new();
    for ExistingObject { object, answer } in existing {
        let name = name(object);
        let exists = matches!(answer, Ok(Some(_)));
        // Creation is not authorized by name.
        let change = if exists { ("patch", name) } else { ("create", "") };
        let rights = [("get", name), change].map(|(verb, name)| Right::on(object, verb, name));
        needed.extend(rights.map(|right| (right, String::new())));
        if object["rules"].is_null() {
            continue;
        }
        // With `escalate` and `bind` on the role, none of its rights are needed. For a role that does not exist yet,
        // `escalate` is authorized without a name, like creation.
        let mut needs_rights = false;
        for (verb, name) in [("escalate", if exists { name } else { "" }), ("bind", name)] {
            let right = Right::on(object, verb, name);
            needs_rights |= !right.is_granted(&checked.api, None).await.unwrap_or(false);
        }
        if needs_rights {
            let reason = format!(" (to grant it in {})", title(object));
            needed.extend(granted(object).into_iter().map(|right| (right, reason.clone())));
        }
    }
    let (mut missing, mut error) = (Vec::new(), None);
    for (right, reason) in &needed {
        match right.is_granted(&checked.api, None).await {
            Ok(true) => {}
            Ok(false) => missing.push(right.show() + reason),
            Err(failed) => error = Some(failed),
        }
    }
    let mut findings: Vec<InstallationFinding> = Vec::new();
    findings.extend(error.map(|error| topic.unknown("some of your permissions are unknown", &error)));
    if !missing.is_empty() {
        let text = format!("you may not {}", missing.join("; "));
        findings.push(topic.fail(text, "apply the manifests as a cluster administrator"));
    }
    if findings.is_empty() {
        findings.push(topic.ok(format!(
            "you may apply all {} objects ({} permissions)",
            existing.len(),
            needed.len()
        )));
    }
    findings
}

pub(super) fn names(checked: &CheckedInstallation, existing: &[ExistingObject]) -> Vec<InstallationFinding> {
    let topic = InstallationTopic::Names;
    let own = checked.target.name();
    let (mut findings, mut free, mut ours) = (Vec::new(), 0_usize, 0_usize);
    for ExistingObject { object, answer } in existing {
        match answer {
            Err(error) => findings.push(topic.unknown(&format!("{} can't be read", title(object)), error)),
            Ok(None) => free += 1,
            Ok(Some(found)) => match found["metadata"]["labels"][INSTANCE].as_str() {
                // All installations share these objects.
                _ if object["kind"] == "Namespace" || object["kind"] == "CustomResourceDefinition" => {}
                Some(instance) if instance == own => ours += 1,
                owner => findings.push(topic.fail(
                    format!(
                        "{} already exists and belongs to {}",
                        title(object),
                        owner.unwrap_or("another owner")
                    ),
                    "install with another --revision or --namespace, or remove the other object",
                )),
            },
        }
    }
    if findings.is_empty() {
        findings.push(topic.ok(match ours {
            0 => "all names are free".to_owned(),
            _ => format!("{ours} objects belong to this installation; free names: {free}"),
        }));
    }
    findings
}
