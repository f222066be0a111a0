//! A pod as the API server has it, for the plugin, which has no client: requested until there is an answer or the time
//! is up.
//!
//! Each try reads the kubeconfig and its token again, takes a part of the time and no more, and waits for longer and longer
//! before the next, in part by chance. A final answer ends it: the pod does not exist, or we
//! may not know.

use crate::arguments::Lookup;
use cluster::access::{self, AccessError};
use cluster::backoff::Backoff;
use cluster::error::{describe, status_of_call};
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
    #[error("the API server knows no pod {0}")]
    NoSuchPod(String),
    #[error("the API server refuses access to the pod {0}: allow its user to get pods")]
    Forbidden(String),
    #[error(
        "the API server gave no answer about the pod {pod} within {time:?}, in {tries} tries; the last ended so: {last}"
    )]
    TimeIsUp { pod: String, time: Duration, tries: u32, last: String },
}

/// The first delay between two tries, and the longest.
const FIRST_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(1);
/// A try may take one of so many parts of the time.
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
    let mut backoff = Backoff::new(FIRST_DELAY, MAX_DELAY).with_jitter();
    let mut tries = 0;
    loop {
        tries += 1;
        let left = end.saturating_duration_since(Instant::now());
        let last = match time::timeout(left.min(*timeout / PARTS), once(lookup)).await {
            Ok(Ok(pod)) => return Ok(pod),
            Ok(Err(Try::Refused(refused))) => return Err(refused.into()),
            Ok(Err(Try::Failed(error))) => match status_of_call(&error) {
                Some(404) => return Err(PodLookupError::NoSuchPod(shown)),
                Some(403) => return Err(PodLookupError::Forbidden(shown)),
                _ => describe(&error),
            },
            Ok(Err(Try::Mismatch)) => "the answer is not a pod of that name".to_owned(),
            Err(_) => "silence".to_owned(),
        };
        tracing::debug!(pod = %shown, tries, error = %last, "not known yet");
        let delay = backoff.delay();
        if Instant::now() + delay >= end {
            return Err(PodLookupError::TimeIsUp { pod: shown, time: *timeout, tries, last });
        }
        time::sleep(delay).await;
    }
}

enum Try {
    Refused(AccessError),
    Failed(kube::Error),
    Mismatch,
}

async fn once(lookup: &Lookup) -> Result<Value, Try> {
    let Lookup { kubeconfig, namespace, name, timeout } = lookup;
    let client = access::client(Some(kubeconfig), *timeout).await.map_err(Try::Refused)?;
    let request = Request::new(Pod::url_path(&(), Some(namespace)));
    let request = request.get(name, &GetParams::default());
    let request = request.map_err(|error| Try::Failed(kube::Error::BuildRequest(error)))?;
    let pod: Value = client.request(request).await.map_err(Try::Failed)?;
    let is_it = pod["kind"] == "Pod"
        && pod["metadata"]["name"] == **name
        && pod["metadata"]["namespace"] == **namespace
        && pod["spec"].is_object();
    if is_it { Ok(pod) } else { Err(Try::Mismatch) }
}
