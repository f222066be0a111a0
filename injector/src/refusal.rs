//! What goes wrong with calls of the API server, in one form wherever it is logged: the kind in a word, the error in a
//! sentence. And how long a watch waits before it is tried again.

use kube::runtime::{
    utils::Backoff,
    watcher::{self, DefaultBackoff},
};
use std::{error::Error, time::Duration};

/// The status of HTTP by which a watch was refused; `None` where something else went wrong.
pub(crate) fn status(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        },
        watcher::Error::WatchError(status) => Some(status.code),
        watcher::Error::NoResourceVersion => None,
    }
}

/// What has gone wrong with a watch, in a word.
pub(crate) fn kind(error: &watcher::Error) -> &'static str {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => kind_of_call(error),
        watcher::Error::WatchError(status) => kind_of_status(status.code),
        watcher::Error::NoResourceVersion => BROKEN,
    }
}

/// The same of a single call.
pub(crate) fn kind_of_call(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) => kind_of_status(status.code),
        // No answer at all: no connection, or one that ended too early.
        kube::Error::Service(_) | kube::Error::HyperError(_) => "unreachable",
        _ => BROKEN,
    }
}

/// What is no answer of the API server's.
const BROKEN: &str = "broken";

fn kind_of_status(code: u16) -> &'static str {
    match code {
        401 => "unauthorized",
        403 => "forbidden",
        404 => "missing",
        410 => "gone",
        _ => "refused",
    }
}

/// What the API server says, and its status; or why it says nothing. What the client says around it is left out, as it
/// repeats that in the form of its own data.
pub(crate) fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let status = match (error.downcast_ref::<kube::Error>(), error.downcast_ref::<watcher::Error>()) {
            (Some(kube::Error::Api(status)), _) | (_, Some(watcher::Error::WatchError(status))) => {
                Some(status)
            }
            _ => None,
        };
        if let Some(status) = status {
            return format!("{} ({})", status.message, status.code);
        }
        next = error.source();
        let more = error.to_string();
        // Most errors of the client end with their cause.
        let more = match next.map(ToString::to_string) {
            Some(cause) => {
                more.strip_suffix(&cause).map_or(&*more, |own| own.trim_end_matches([':', ' '])).to_owned()
            }
            None => more,
        };
        match (text.is_empty(), more.is_empty() || text.contains(&more)) {
            (_, true) => {}
            (true, false) => text = more,
            (false, false) => text = format!("{text}: {more}"),
        }
    }
    text
}

/// How long a watch waits after each failure: longer and longer, up to half a minute, and from the beginning when all was well
/// for two.
///
/// The client's own one, [`DefaultBackoff`], begins again with each event of the watch. The beginning of a list is one, which
/// comes before the list is refused.
#[derive(Default)]
pub(crate) struct Waits(DefaultBackoff);

impl Iterator for Waits {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

impl Backoff for Waits {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn waits_grow_whatever_comes_between_failures() {
        let mut waits = Waits::default();
        let seconds: Vec<u64> = (0..8)
            .map(|_| {
                waits.reset();
                waits.next().expect("it never gives up").as_secs()
            })
            .collect();
        // Twice as long each time, and up to as much again by chance.
        let least = [0, 1, 3, 6, 12, 25, 30, 30];
        assert!(
            seconds.iter().zip(least).all(|(wait, least)| (least..=2 * least + 2).contains(wait)),
            "{seconds:?}"
        );
    }

    #[test]
    fn all_errors_are_told_in_one_form() {
        let refused = || {
            let status = Status::failure("services is forbidden", "Forbidden").with_code(403);
            Box::new(status)
        };
        let expected = "services is forbidden (403)";
        assert_eq!(told(&kube::Error::Api(refused())), expected);
        assert_eq!(told(&watcher::Error::InitialListFailed(kube::Error::Api(refused()))), expected);
        assert_eq!(told(&watcher::Error::WatchError(refused())), expected);
        let broken = kube::Error::Service("connection closed".into());
        assert!(told(&watcher::Error::WatchFailed(broken)).ends_with("connection closed"));
        assert_eq!(kind(&watcher::Error::WatchError(refused())), "forbidden");
        assert_eq!(kind(&watcher::Error::NoResourceVersion), "broken");
    }
}
