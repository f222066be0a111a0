//! Uniform log fields for failed API server calls and watches: a one-word kind, and the error as a sentence.

use kube::{core::Status, runtime::watcher};
use std::{error::Error, iter::successors, time::Duration};
use tokio::time::timeout;

type Failed = dyn Error + 'static;

fn causes(error: &Failed) -> impl Iterator<Item = &Failed> {
    successors(Some(error), |error| (*error).source())
}

fn refusal(error: &Failed) -> Option<&Status> {
    match (error.downcast_ref::<kube::Error>(), error.downcast_ref::<watcher::Error>()) {
        (Some(kube::Error::Api(status)), _) | (_, Some(watcher::Error::WatchError(status))) => Some(status),
        _ => None,
    }
}

/// HTTP status of a call or watch that the API server refused; `None` for other failures.
pub fn status(error: &Failed) -> Option<u16> {
    causes(error).find_map(refusal).map(|status| status.code)
}

pub fn kind(error: &Failed) -> &'static str {
    // No answer: no connection, or it ended too early.
    let is_silence = |error: &Failed| {
        use kube::Error::{HyperError, ReadEvents, Service};
        matches!(error.downcast_ref(), Some(Service(_) | HyperError(_) | ReadEvents(_)))
    };
    match status(error) {
        Some(401) => "unauthorized",
        Some(403) => "forbidden",
        Some(404) => "missing",
        Some(410) => "gone",
        Some(_) => "refused",
        None if causes(error).any(is_silence) => "unreachable",
        // Such as an unparsable answer, or another server's answer.
        None => "broken",
    }
}

/// Limits a call's duration. Errors: a failed call, or a timeout.
pub async fn in_time<T>(limit: Duration, call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let silence = |_| kube::Error::Service(format!("the API server did not answer within {limit:?}").into());
    timeout(limit, call).await.map_err(silence)?
}

/// Message and status of the API server's refusal, or an error with its causes. The client's own text for a refusal is omitted:
/// it repeats the refusal as a debug dump.
pub fn describe(error: &Failed) -> String {
    let mut text = String::new();
    for error in causes(error) {
        if let Some(status) = refusal(error) {
            return format!("{} ({})", status.message, status.code);
        }
        let whole = error.to_string();
        // Most client errors end with their cause.
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        let own = whole.strip_suffix(&cause).unwrap_or(&whole).trim_end_matches([':', ' ']);
        if !text.contains(own) {
            text += &if text.is_empty() { own.to_owned() } else { format!(": {own}") };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn errors_are_described_in_one_form() {
        let refused = || {
            let status = Status::failure("services is forbidden", "Forbidden").with_code(403);
            Box::new(status)
        };
        let expected = "services is forbidden (403)";
        assert_eq!(describe(&kube::Error::Api(refused())), expected);
        assert_eq!(describe(&watcher::Error::InitialListFailed(kube::Error::Api(refused()))), expected);
        assert_eq!(describe(&watcher::Error::WatchError(refused())), expected);
        let broken = kube::Error::Service("connection closed".into());
        assert!(describe(&watcher::Error::WatchFailed(broken)).ends_with("connection closed"));
        assert_eq!(kind(&watcher::Error::WatchError(refused())), "forbidden");
        assert_eq!(kind(&watcher::Error::NoResourceVersion), "broken");
    }
}
