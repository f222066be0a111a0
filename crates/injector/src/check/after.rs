//! Checks of an installation: its pods run, its webhooks trust its authority, and its accounts have their roles' permissions.

use super::finding::{InstallationFinding, InstallationTopic};
use super::rights::{Right, ServiceAccount, granted, name, title};
use super::{CheckedInstallation, before::ExistingObject};
use crate::authority::stored;
use cluster::error::describe;
use k8s_openapi::{api::core::v1::Secret, jiff::Timestamp};
use serde_json::Value;

const WEEK: i64 = 7 * 86_400;

pub(super) fn absent(deployment: &Value, ours: &[&Value]) -> InstallationFinding {
    let topic = InstallationTopic::Server;
    let title = title(deployment);
    if ours.is_empty() {
        return topic.ok(format!("{title} does not exist; installation checks are skipped"));
    }
    let names = ours.iter().map(|one| name(one)).collect::<Vec<_>>().join(", ");
    topic.fail(
        format!("{title} does not exist, but {names} calls it: no selected pod can be created"),
        "apply the manifests again, or delete all objects: sidecar-injector uninstall",
    )
}

pub(super) async fn server(checked: &CheckedInstallation, deployment: &Value) -> Vec<InstallationFinding> {
    let topic = InstallationTopic::Server;
    let namespace = &checked.target.namespace;
    let title = title(deployment);
    let conditions = deployment["status"]["conditions"].as_array().into_iter().flatten();
    let available = conditions.into_iter().find(|one| one["type"] == "Available");
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let (ready, wanted) =
        (count(&deployment["status"]["readyReplicas"]), count(&deployment["spec"]["replicas"]));
    let mut findings = Vec::new();
    findings.push(match available {
        Some(one) if one["status"] == "True" && ready >= wanted => {
            topic.ok(format!("{title} is available; {ready} of {wanted} pods are ready"))
        }
        Some(one) if one["status"] == "True" => topic.warn(
            format!("{title} is available, but only {ready} of {wanted} pods are ready"),
            format!("see kubectl -n {namespace} get pods"),
        ),
        other => {
            let message = other.and_then(|one| one["message"].as_str()).unwrap_or("it has no status yet");
            topic.fail(
                format!("{title} is not available: {message}"),
                format!(
                    "after an installation, wait a minute; otherwise see kubectl -n {namespace} describe pods"
                ),
            )
        }
    });
    let selector = format!("app.kubernetes.io%2Finstance%3D{}", checked.target.name());
    let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}");
    match checked.api.list(&path).await {
        Err(error) => findings.push(topic.unknown("pods can't be listed", &error)),
        Ok(pods) => findings.extend(pods.iter().flat_map(waiting)),
    }
    findings
}

fn waiting(pod: &Value) -> Vec<InstallationFinding> {
    let topic = InstallationTopic::Server;
    let title = name(pod);
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let finding = |status: &Value| {
        let state = &status["state"]["waiting"];
        let reason = state["reason"].as_str()?;
        let message = state["message"].as_str().map(|text| format!(": {text}")).unwrap_or_default();
        let image = status["image"].as_str().unwrap_or_default();
        let remedy = match reason {
            "ContainerCreating" | "PodInitializing" => return None,
            reason if reason.contains("Image") => {
                "push the image to a registry that the nodes reach, and set it with manifests --image"
                    .to_owned()
            }
            _ => {
                let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
                format!("see kubectl -n {namespace} logs {title}")
            }
        };
        Some(
            topic
                .fail(format!("pod {title} with the image {image} does not run ({reason}){message}"), remedy),
        )
    };
    statuses.filter_map(finding).collect()
}

pub(super) async fn certificates(checked: &CheckedInstallation, ours: &[&Value]) -> Vec<InstallationFinding> {
    let topic = InstallationTopic::Certificates;
    let secret = checked.target.secret();
    let path = format!("/api/v1/namespaces/{}/secrets/{secret}", checked.target.namespace);
    let title = format!("Secret {}/{secret}", checked.target.namespace);
    let repair = "see the server's log; if you delete the Secret, a running replica restores it";
    let object = match checked.api.get(&path).await {
        Err(error) => {
            let text = format!("{title} can't be read, so caBundle is not compared");
            return vec![topic.unknown(&text, &error)];
        }
        Ok(object) => object.map(serde_json::from_value::<Secret>).transpose(),
    };
    let read = match &object {
        Ok(secret) => secret.as_ref().map_or(Ok(None), stored),
        Err(error) => Err(describe(error)),
    };
    let authorities = match read {
        Ok(Some(authorities)) => authorities,
        Ok(None) => return vec![topic.fail(format!("{title} is missing or empty"), repair)],
        Err(error) => return vec![topic.fail(format!("{title} can't be used: {error}"), repair)],
    };
    let bundle = authorities.bundle();
    let mut findings = vec![validity(authorities.ends(), Timestamp::now().as_second())];
    for configuration in ours {
        let behind = checked.service.behind(configuration, &bundle);
        findings.push(match &behind[..] {
            [] => topic.ok(format!("caBundle of {} matches {title}", name(configuration))),
            some => topic.fail(
                format!("caBundle of {} does not match {title}: {}", name(configuration), some.join(", ")),
                "see the server's log for the reason (cannot set caBundle); apply the roles again",
            ),
        });
    }
    findings
}

/// The server replaces the authority after two thirds of its life.
fn validity(ends: i64, now: i64) -> InstallationFinding {
    let topic = InstallationTopic::Certificates;
    let until =
        Timestamp::from_second(ends).map_or_else(|_| format!("second {ends}"), |time| time.to_string());
    let valid = format!("the CA certificate is valid until {until}");
    match ends - now {
        ..=0 => topic.fail(
            format!("the CA certificate expired at {until}"),
            "delete the CA's Secret and restart the Deployment",
        ),
        1..WEEK => topic.warn(
            valid,
            "if --ca-lifetime is longer than a week, see the server's log: the next CA should be announced",
        ),
        _ => topic.ok(valid),
    }
}

/// Compares the accounts' permissions with their roles. An operator that is not installed yet has no account.
pub(super) async fn roles(
    checked: &CheckedInstallation,
    existing: &[ExistingObject],
) -> Vec<InstallationFinding> {
    let mut findings = Vec::new();
    for ExistingObject { object, answer } in existing {
        let name = name(object);
        let is_installed = name == checked.target.name() || !matches!(answer, Ok(None));
        if object["kind"] == "ServiceAccount" && is_installed {
            findings.push(roles_of(checked, name).await);
        }
    }
    findings
}

/// Compares an account's permissions with the roles of the same name. Access reviews include permissions from any role.
async fn roles_of(checked: &CheckedInstallation, name: &str) -> InstallationFinding {
    let topic = InstallationTopic::Roles;
    let account = ServiceAccount { namespace: &checked.target.namespace, name };
    let own = checked.objects.iter().filter(|one| one["metadata"]["name"] == *name);
    let rights: Vec<Right> = own.filter(|one| !one["rules"].is_null()).flat_map(granted).collect();
    let mut missing = Vec::new();
    for right in &rights {
        match right.is_granted(&checked.api, Some(&account)).await {
            Ok(true) => {}
            Ok(false) => missing.push(right.show()),
            Err(error) => return topic.unknown(&format!("the permissions of {account} are unknown"), &error),
        }
    }
    match &missing[..] {
        [] => topic.ok(format!("{account} has all {} permissions", rights.len())),
        some => topic.fail(
            format!("{account} may not {}", some.join("; ")),
            "apply the roles and their bindings again",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnose::lint::Level;

    #[test]
    fn a_certificate_that_ends_is_reported_in_time() {
        let now = 1_795_305_600;
        let level = |left: i64| validity(now + left, now).level;
        assert_eq!(level(0), Level::Failure);
        assert_eq!(level(WEEK - 1), Level::Warning);
        assert_eq!(level(WEEK), Level::Ok);
        assert_eq!(validity(now + WEEK, now).text, "the CA certificate is valid until 2026-11-29T00:00:00Z");
    }
}
