//! Permissions, as in roles, reviewed by the API server.

use crate::api::ApiServer;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// Right, serialized as the attributes of an access review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Right {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) verb: String,
    /// Empty for cluster-wide objects or all namespaces.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Right {
    /// Right to use `verb` on an object, or on any of its kind if `name` is empty.
    pub(super) fn on(object: &Value, verb: &str, name: &str) -> Self {
        let (group, resource, _) = collection(object);
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        Self { group, resource, verb: verb.to_owned(), namespace, name: name.to_owned() }
    }

    pub(super) fn show(&self) -> String {
        let Self { group, resource, verb, namespace, name } = self;
        let dot = if group.is_empty() { String::new() } else { format!(".{group}") };
        let of = if name.is_empty() { String::new() } else { format!(" {name}") };
        let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
        format!("{verb} {resource}{dot}{of}{place}")
    }

    /// True if the client, or the given service account, has the right.
    pub(super) async fn is_granted(
        &self,
        api: &ApiServer,
        account: Option<&ServiceAccount<'_>>,
    ) -> kube::Result<bool> {
        let (kind, path) = match account {
            None => ("SelfSubjectAccessReview", "selfsubjectaccessreviews"),
            Some(_) => ("SubjectAccessReview", "subjectaccessreviews"),
        };
        let mut review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": kind,
            "spec": { "resourceAttributes": self } });
        if let Some(account) = account {
            // Groups of the account, which the API server derives from a token, but not from a name in a review.
            let all = "system:serviceaccounts";
            review["spec"]["user"] = account.to_string().into();
            review["spec"]["groups"] =
                json!([all, format!("{all}:{}", account.namespace), "system:authenticated"]);
        }
        let answer = api.post(&format!("/apis/authorization.k8s.io/v1/{path}"), &review).await?;
        Ok(answer["status"]["allowed"] == true)
    }
}

/// Service account, displayed as the API server's user name.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceAccount<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl fmt::Display for ServiceAccount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

/// Group, resource and collection path of an object's kind.
pub(super) fn collection(object: &Value) -> (String, String, String) {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    // English plurals, for all kinds of an installation.
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let resource = match kind.strip_suffix('y') {
        Some(beginning) => format!("{beginning}ies"),
        None => format!("{kind}s"),
    };
    let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let root = if group.is_empty() { "api" } else { "apis" };
    let path = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{resource}"),
        None => format!("/{root}/{version}/{resource}"),
    };
    (group, resource, path)
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn title(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default();
    match object["metadata"]["namespace"].as_str() {
        None => format!("{kind} {}", name(object)),
        Some(namespace) => format!("{kind} {namespace}/{}", name(object)),
    }
}

pub(super) fn granted(role: &Value) -> Vec<Right> {
    let namespace = role["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut rights = Vec::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        let list = |field: &str| {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(|item| Some(item.as_str()?.to_owned())).collect::<Vec<String>>()
        };
        let mut names = list("resourceNames");
        if names.is_empty() {
            names.push(String::new());
        }
        for group in list("apiGroups") {
            for resource in list("resources") {
                for verb in list("verbs") {
                    rights.extend(names.iter().map(|name| Right {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        namespace: namespace.to_owned(),
                        name: name.clone(),
                    }));
                }
            }
        }
    }
    rights
}
