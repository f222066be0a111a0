//! Authenticates service accounts by token and an administrator by the kubeconfig's certificate, and authorizes their requests by
//! roles.

use super::{
    kinds::{Access, Kind, Rule},
    refusal::Refusal,
    state::State,
};
use crate::http::Request;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::Path};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Administrator,
    Account(String, String),
}

/// Returns `None` for an unknown or replaced token.
pub(crate) fn of_token(state: &State, token: &str) -> Option<User> {
    if state.administrator.as_deref() == Some(token) {
        return Some(User::Administrator);
    }
    let (namespace, name) = state.tokens.get(token)?.clone();
    Some(User::Account(namespace, name))
}

pub(crate) fn refusal(state: &State, user: &User, access: &Access) -> Option<String> {
    let User::Account(namespace, name) = user else { return None };
    // Every cluster's `system:basic-user` grants this.
    if access.resource == "selfsubjectaccessreviews" {
        return None;
    }
    let is_subject = |subject: &Value| {
        subject["kind"] == "ServiceAccount"
            && subject["namespace"] == **namespace
            && subject["name"] == **name
    };
    let bound = |binding: &&Value| binding["subjects"].as_array().into_iter().flatten().any(is_subject);
    let here = |binding: &&Value| {
        !access.namespace.is_empty() && binding["metadata"]["namespace"] == access.namespace
    };
    let bindings =
        state.all("clusterrolebindings").chain(state.all("rolebindings").filter(here)).filter(bound);
    let roles = bindings.filter_map(|binding| {
        let name = binding["roleRef"]["name"].as_str()?;
        match binding["roleRef"]["kind"].as_str()? {
            "ClusterRole" => state.find("clusterroles", "", name),
            _ => state.find("roles", &access.namespace, name),
        }
    });
    let mut rules = roles.filter_map(|role| role["rules"].as_array()).flatten();
    if rules.any(|rule| grants(rule, access)) {
        return None;
    }
    let Access { group, resource, verb, .. } = access;
    let place = match &*access.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    Some(format!(
        "{resource} is forbidden: User \"system:serviceaccount:{namespace}:{name}\" cannot {verb} resource {resource:?} in \
         API group {group:?} {place}"
    ))
}

const VERBS: [&str; 10] =
    ["bind", "create", "delete", "escalate", "get", "list", "patch", "update", "use", "watch"];

/// Answers an access review, for the client itself or for a named service account.
pub(crate) fn review(
    state: &State,
    user: &User,
    request: &Request,
    kind: &Kind,
) -> Result<(u16, Value), Refusal> {
    let bad = |message: &str| Refusal { code: 400, reason: "BadRequest", message: message.to_owned() };
    let mut review: Value = serde_json::from_slice(&request.body).map_err(|_| bad("the body is not JSON"))?;
    let subject = match (&*kind.kind, review["spec"]["user"].as_str()) {
        ("SelfSubjectAccessReview", None) => user.clone(),
        ("SubjectAccessReview", Some(named)) => {
            let account = named.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
            let (namespace, name) = account.ok_or_else(|| bad("only service accounts are known here"))?;
            // Group bindings apply only to the groups that a review names.
            let all = "system:serviceaccounts";
            if review["spec"]["groups"] != json!([all, format!("{all}:{namespace}"), "system:authenticated"])
            {
                return Err(bad("spec.groups lacks groups of the service account"));
            }
            User::Account(namespace.to_owned(), name.to_owned())
        }
        _ => return Err(bad("spec.user is for a SubjectAccessReview, which needs it")),
    };
    let attributes = &review["spec"]["resourceAttributes"];
    let text = |field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
    let verb = VERBS.into_iter().find(|verb| attributes["verb"] == **verb);
    let access = Access {
        group: text("group"),
        resource: text("resource"),
        verb: verb.ok_or_else(|| bad("no verb of roles"))?,
        namespace: text("namespace"),
        name: text("name"),
    };
    let refused = refusal(state, &subject, &access);
    review["status"] = json!({ "allowed": refused.is_none(), "reason": refused.unwrap_or_default() });
    Ok((201, review))
}

pub fn grants(rule: &Value, access: &Access) -> bool {
    let has = |field: &str, value: &str| {
        rule[field].as_array().is_some_and(|list| list.iter().any(|item| item == value || item == "*"))
    };
    has("apiGroups", &access.group)
        && has("resources", &access.resource)
        && has("verbs", access.verb)
        && (rule["resourceNames"].is_null() || has("resourceNames", &access.name))
}

/// Permissions granted by a manifest's roles below `docker`, each with its role's name.
pub fn granted(file: &str) -> BTreeSet<(String, Rule)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker").join(file);
    let text = fs::read_to_string(path).expect("a manifest");
    granted_by(&serde_saphyr::from_multiple::<Value>(&text).expect("YAML"))
}

pub fn granted_by(objects: &[Value]) -> BTreeSet<(String, Rule)> {
    let list = |rule: &Value, field: &str| -> Vec<String> {
        serde_json::from_value(rule[field].clone()).expect("a list of strings")
    };
    let mut granted = BTreeSet::new();
    for role in objects {
        for rule in role["rules"].as_array().into_iter().flatten() {
            for (group, resource) in list(rule, "apiGroups")
                .into_iter()
                .flat_map(|group| list(rule, "resources").into_iter().map(move |one| (group.clone(), one)))
            {
                let name = role["metadata"]["name"].as_str().expect("a name");
                let verbs = list(rule, "verbs").into_iter();
                granted.extend(verbs.map(|verb| (name.to_owned(), (group.clone(), resource.clone(), verb))));
            }
        }
    }
    granted
}
