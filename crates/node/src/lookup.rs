//! A pod as stored by the API server, for the plugin, which has no client. Each try rereads the kubeconfig and its token, takes
//! at most a third of the time limit, and is followed by a growing, partly random delay. Retries end if the pod does not exist,
//! or access is forbidden.

use crate::arguments::Lookup;
use cluster::access::{self, AccessError};
use cluster::error::{describe, status};
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, core::Request, core::params::GetParams};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PodLookupError {
    #[error(transparent)]
    Input(#[from] AccessError),
    #[error("{0} is not the name of a pod in a namespace")]
    Name(String),
    #[error("pod {0} does not exist")]
    NoSuchPod(String),
    #[error("the API server refuses access to pod {0}: grant get on pods")]
    Forbidden(String),
    #[error(
        "the API server did not answer about pod {pod} within {time:?}, in {tries} tries; the last error: {last}"
    )]
    TimeIsUp { pod: String, time: Duration, tries: u32, last: String },
}

const FIRST_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Full-length tries that fit into the time limit.
const PARTS: u32 = 3;

pub(crate) async fn pod(lookup: &Lookup) -> Result<Value, PodLookupError> {
    let Lookup { namespace, name, timeout, .. } = lookup;
    let shown = format!("{namespace}/{name}");
    let is_name = |name: &str| {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        !name.is_empty() && name.len() <= 253 && !name.starts_with('.') && name.bytes().all(is_allowed)
    };
    if !is_name(namespace) || !is_name(name) {
        return Err(PodLookupError::Name(shown));
    }
    let end = Instant::now() + *timeout;
    let mut backoff = cluster::backoff(FIRST_DELAY, MAX_DELAY, true);
    let mut tries = 0;
    loop {
        tries += 1;
        let left = end.saturating_duration_since(Instant::now());
        let answered = time::timeout(left.min(*timeout / PARTS), once(lookup)).await;
        let last = match answered.unwrap_or_else(|_| Ok(Err("silence".to_owned())))? {
            Ok(pod) => return Ok(pod),
            Err(last) => last,
        };
        tracing::debug!(pod = %shown, tries, error = %last, "not known yet");
        let delay = backoff.next().unwrap_or(MAX_DELAY);
        if Instant::now() + delay >= end {
            return Err(PodLookupError::TimeIsUp { pod: shown, time: *timeout, tries, last });
        }
        time::sleep(delay).await;
    }
}

/// The pod, or a reason to retry.
async fn once(lookup: &Lookup) -> Result<Result<Value, String>, PodLookupError> {
    let Lookup { kubeconfig, namespace, name, timeout } = lookup;
    let client = access::client(Some(kubeconfig), *timeout).await?;
    let request = Request::new(Pod::url_path(&(), Some(namespace))).get(name, &GetParams::default());
    let answer = async { client.request::<Value>(request.map_err(kube::Error::BuildRequest)?).await };
    let is_it = |pod: &Value| {
        pod["kind"] == "Pod"
            && pod["metadata"]["name"] == **name
            && pod["metadata"]["namespace"] == **namespace
            && pod["spec"].is_object()
    };
    match answer.await {
        Ok(pod) if is_it(&pod) => Ok(Ok(pod)),
        Ok(_) => Ok(Err("the answer is not a pod of that name".to_owned())),
        Err(error) => match status(&error) {
            Some(404) => Err(PodLookupError::NoSuchPod(format!("{namespace}/{name}"))),
            Some(403) => Err(PodLookupError::Forbidden(format!("{namespace}/{name}"))),
            _ => Ok(Err(describe(&error))),
        },
    }
}
