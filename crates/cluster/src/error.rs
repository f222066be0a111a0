//! Failed calls and watches of the API server, in one form wherever they are logged: the kind in a word, the error in a
//! sentence.

use kube::runtime::watcher;
use std::error::Error;

/// `None` where it failed otherwise.
pub fn status_of_call(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// `None` where it failed otherwise.
pub fn status(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => status_of_call(error),
        watcher::Error::WatchError(status) => Some(status.code),
        watcher::Error::NoResourceVersion => None,
    }
}

pub fn kind(error: &watcher::Error) -> &'static str {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => kind_of_call(error),
        watcher::Error::WatchError(status) => kind_of_status(status.code),
        watcher::Error::NoResourceVersion => BROKEN,
    }
}

pub fn kind_of_call(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) => kind_of_status(status.code),
        // No answer at all: no connection, or one that ended too early.
        kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => "unreachable",
        _ => BROKEN,
    }
}

/// Any other failure, such as an answer that does not come from an API server, or that can't be parsed.
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

/// The message and the status of the API server's refusal, or an error with its causes. What the client adds to a refusal is
/// omitted: it repeats the refusal as a dump of its data.
pub fn describe(error: &(dyn Error + 'static)) -> String {
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
