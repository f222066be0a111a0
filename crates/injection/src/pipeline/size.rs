//! Size limit of a pod: larger than any pod that the API server stores, but small enough to process, since any client can call a
//! webhook. `inject -f` and the webhook have the same limit.

use mesh::{InputProblem, Problems};
use serde_json::Value;

/// Maximum bytes of a pod's values in memory, by the estimate below. The API server stores objects of up to 1.5 MB (etcd's
/// `--max-request-bytes`); parsed, the most wasteful object takes less than this.
const MAX_BYTES: usize = 96 << 20;
/// Bytes of a value or a field's name, including the allocator's overhead.
const VALUE: usize = 48;
/// Bytes of an object's B-tree node, which `FIELDS_OF_NODE` fields share.
const NODE: usize = 640;
const FIELDS_OF_NODE: usize = 6;

/// Used bytes.
#[derive(Debug, Default)]
pub(crate) struct Allowance(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the pod has more values than fit into {} MiB of memory; the API server stores at most 1.5 MB",
    MAX_BYTES >> 20
)]
pub(crate) struct TooLarge;

impl Allowance {
    pub(crate) fn value(&mut self, text: &str) -> Result<(), TooLarge> {
        self.take(VALUE + text.len())
    }

    /// Adds an object's field, without its value; `before` is the number of earlier fields.
    pub(crate) fn field(&mut self, name: &str, before: usize) -> Result<(), TooLarge> {
        self.take(name.len() + if before.is_multiple_of(FIELDS_OF_NODE) { NODE } else { 0 })
    }

    fn take(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.0 += bytes;
        if self.0 > MAX_BYTES { Err(TooLarge) } else { Ok(()) }
    }

    fn tree(&mut self, value: &Value) -> Result<(), TooLarge> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.value(""),
            Value::String(text) => self.value(text),
            Value::Array(items) => {
                self.value("")?;
                items.iter().try_for_each(|item| self.tree(item))
            }
            Value::Object(fields) => {
                self.value("")?;
                fields.iter().enumerate().try_for_each(|(before, (name, value))| {
                    self.field(name, before)?;
                    self.tree(value)
                })
            }
        }
    }
}

pub(super) fn check(pod: &Value) -> Result<(), Problems> {
    let weighed = Allowance::default().tree(pod);
    weighed.map_err(|too_large| Problems(vec![InputProblem::of("pod", too_large.to_string())]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A list with the number of items that a 1.5 MB pod holds.
    fn of_1_5_megabytes(item: &Value) -> Value {
        let length = item.to_string().len() + 1;
        json!({ "spec": { "containers": [{ "name": "web", "env": vec![item.clone(); 1_500_000 / length] }] } })
    }

    #[test]
    fn every_pod_that_the_api_server_stores_is_small_enough() {
        for item in [json!({"name": "A"}), json!({}), json!(""), json!({"name": "A", "value": "b"})] {
            assert_eq!(check(&of_1_5_megabytes(&item)).err(), None, "{item}");
        }
    }

    #[test]
    fn oversized_pods_are_refused() {
        let shown = check(&json!(vec![json!({"a": 1}); 300_000])).expect_err("too large").to_string();
        assert!(shown.contains("more values than fit into 96 MiB of memory"), "{shown}");
    }
}
