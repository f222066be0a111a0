//! Paths of volume mounts. The kubelet and the runtime clean a path before they mount, the API server compares texts.

use serde_json::Value;
use std::borrow::Cow;

pub(crate) const MOUNT_PATH: &str = "mountPath";

/// The shortest path that means the same (`path.Clean` of Go).
pub(crate) fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !["", "."].contains(part)) {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            ("..", None) if is_absolute => {}
            _ => parts.push(part),
        }
    }
    match (is_absolute, parts.join("/")) {
        (true, path) => format!("/{path}"),
        (false, path) if path.is_empty() => ".".to_owned(),
        (false, path) => path,
    }
}

/// The value by which an item of a keyed list is identified: a mount by its clean path, any other by its field as it is.
pub(crate) fn identity<'a>(item: &'a Value, key: &str) -> Option<Cow<'a, Value>> {
    match item.get(key)? {
        Value::String(path) if key == MOUNT_PATH => Some(Cow::Owned(clean(path).into())),
        value => Some(Cow::Borrowed(value)),
    }
}
