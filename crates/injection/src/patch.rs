//! The difference between two documents as an RFC 6902 patch, the format of webhook answers. Common parts stay untouched, and
//! list items are matched by name. Operations follow the order of fields and items, so patches are deterministic.

use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde_json::{Map, Value};
use similar::{Algorithm, DiffTag, capture_diff_slices};

/// Maximum number of pairs in an item-by-item comparison; larger lists are replaced whole.
const MAX_PAIRS: usize = 1_000_000;

pub fn between(before: &Value, after: &Value) -> Patch {
    let mut difference = PatchBuilder::default();
    difference.value(before, after);
    Patch(difference.operations)
}

#[derive(Default)]
struct PatchBuilder {
    at: PointerBuf,
    operations: Vec<PatchOperation>,
}

impl PatchBuilder {
    fn value(&mut self, before: &Value, after: &Value) {
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => self.object(before, after),
            (Value::Array(before), Value::Array(after)) => self.list(before, after),
            _ if before == after => {}
            _ => self.replace(after),
        }
    }

    fn object(&mut self, before: &Map<String, Value>, after: &Map<String, Value>) {
        for field in before.keys().filter(|field| !after.contains_key(*field)) {
            self.within(field, Self::remove);
        }
        for (field, value) in after {
            match before.get(field) {
                Some(old) => self.within(field, |inner| inner.value(old, value)),
                None => self.within(field, |inner| inner.add(value)),
            }
        }
    }

    /// Minimizes additions and removals, by the longest common subsequence.
    fn list(&mut self, before: &[Value], after: &[Value]) {
        if before == after {
            return;
        }
        let is_same = |(old, new): &(&Value, &Value)| identity(old) == identity(new);
        let head = before.iter().zip(after).take_while(is_same).count();
        let ends = before[head..].iter().rev().zip(after[head..].iter().rev());
        let kept = head + ends.take_while(is_same).count();
        if (before.len() - kept).saturating_mul(after.len() - kept) > MAX_PAIRS {
            return self.replace(&Value::from(after));
        }
        let [old, new] = [before, after].map(|items| items.iter().map(identity).collect::<Vec<_>>());
        let mut at = 0;
        for step in capture_diff_slices(Algorithm::Lcs, &old, &new) {
            let (tag, old, new) = step.as_tag_tuple();
            let (mut old, mut new) = (before[old].iter(), after[new].iter());
            while old.len() + new.len() > 0 {
                let place = at.to_string();
                match (old.next(), new.next()) {
                    (Some(old), Some(new)) if tag == DiffTag::Equal => {
                        self.within(&place, |inner| inner.value(old, new));
                    }
                    (Some(_), Some(new)) => self.within(&place, |inner| inner.replace(new)),
                    (None, Some(new)) => self.within(&place, |inner| inner.add(new)),
                    (_, None) => {
                        self.within(&place, Self::remove);
                        continue;
                    }
                }
                at += 1;
            }
        }
    }

    fn within(&mut self, field: &str, inside: impl FnOnce(&mut Self)) {
        self.at.push_back(field);
        inside(self);
        self.at.pop_back();
    }

    fn add(&mut self, value: &Value) {
        let operation = AddOperation { path: self.at.clone(), value: value.clone() };
        self.operations.push(PatchOperation::Add(operation));
    }

    fn replace(&mut self, value: &Value) {
        let operation = ReplaceOperation { path: self.at.clone(), value: value.clone() };
        self.operations.push(PatchOperation::Replace(operation));
    }

    fn remove(&mut self) {
        self.operations.push(PatchOperation::Remove(RemoveOperation { path: self.at.clone() }));
    }
}

fn identity(item: &Value) -> (Option<&Value>, Option<&Value>) {
    let name = item.get("name");
    (name, name.is_none().then_some(item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(before: &Value, after: &Value, expected: &Value) {
        let patch = between(before, after);
        assert_eq!(&serde_json::to_value(&patch).expect("JSON"), expected, "{before} {after}");
    }

    #[test]
    fn patches_are_small_and_their_order_is_stable() {
        check(&json!({"a": 1}), &json!({"a": 1}), &json!([]));
        check(
            &json!({"a~/": 1, "b": 2, "z": {}}),
            &json!({"b": 3, "c": null, "z": {"y": []}}),
            &json!([
                {"op": "remove", "path": "/a~0~1"},
                {"op": "replace", "path": "/b", "value": 3},
                {"op": "add", "path": "/c", "value": null},
                {"op": "add", "path": "/z/y", "value": []},
            ]),
        );
        check(&json!([]), &json!({}), &json!([{"op": "replace", "path": "", "value": {}}]));
    }

    #[test]
    fn items_are_matched_by_name() {
        let item = |name: &str, image: &str| json!({"name": name, "image": image});
        check(
            &json!([item("proxy", "auto"), item("app", "web")]),
            &json!([item("app", "web"), item("proxy", "v1")]),
            &json!([
                {"op": "remove", "path": "/0"},
                {"op": "add", "path": "/1", "value": item("proxy", "v1")},
            ]),
        );
        check(
            &json!([item("a", "1"), item("b", "1"), item("c", "1")]),
            &json!([item("x", "1"), item("b", "2"), item("c", "1"), item("d", "1")]),
            &json!([
                {"op": "replace", "path": "/0", "value": item("x", "1")},
                {"op": "replace", "path": "/1/image", "value": "2"},
                {"op": "add", "path": "/3", "value": item("d", "1")},
            ]),
        );
        check(&json!(["x", "y", "z"]), &json!(["y", "z"]), &json!([{"op": "remove", "path": "/0"}]));
    }

    fn common(old: &[Value], new: &[Value]) -> usize {
        match (old.split_first(), new.split_first()) {
            (Some((a, old)), Some((b, new))) if a == b => 1 + common(old, new),
            (Some((_, shorter)), Some((_, less))) => common(shorter, new).max(common(old, less)),
            _ => 0,
        }
    }

    #[test]
    fn no_item_goes_or_comes_without_need() {
        let mut lists = vec![Vec::<Value>::new()];
        for length in 0..4 {
            let longer = lists.iter().filter(|list| list.len() == length).flat_map(|list| {
                ["a", "b", "c"].map(|item| list.iter().cloned().chain([item.into()]).collect())
            });
            lists.extend(longer.collect::<Vec<_>>());
        }
        assert_eq!(lists.len(), 121);
        for old in &lists {
            for new in &lists {
                let steps = between(&old[..].into(), &new[..].into()).0;
                let (mut gone, mut come) = (0, 0);
                for step in &steps {
                    match step {
                        PatchOperation::Add(_) => come += 1,
                        PatchOperation::Remove(_) => gone += 1,
                        PatchOperation::Replace(_) => (gone, come) = (gone + 1, come + 1),
                        other => panic!("{other:?}"),
                    }
                }
                let kept = common(old, new);
                assert_eq!((gone, come), (old.len() - kept, new.len() - kept), "{old:?} {new:?}: {steps:?}");
            }
        }
    }

    #[test]
    fn an_item_in_the_place_of_another_replaces_it() {
        check(
            &json!(["a", "x", "b", "y"]),
            &json!(["a", "p", "b"]),
            &json!([{"op": "replace", "path": "/1", "value": "p"}, {"op": "remove", "path": "/3"}]),
        );
        check(
            &json!(["x", "a", "b"]),
            &json!(["a", "p", "q", "b", "c"]),
            &json!([
                {"op": "remove", "path": "/0"}, {"op": "add", "path": "/1", "value": "p"},
                {"op": "add", "path": "/2", "value": "q"}, {"op": "add", "path": "/4", "value": "c"},
            ]),
        );
        check(
            &json!([{"name": "a"}, {"a": 1}]),
            &json!([{"a": 1}, {"name": 1}]),
            &json!([{"op": "remove", "path": "/0"}, {"op": "add", "path": "/1", "value": {"name": 1}}]),
        );
    }

    #[test]
    fn a_list_too_long_to_compare_is_replaced() {
        let numbers = |from: usize, count: usize| Value::from((from..from + count).collect::<Vec<_>>());
        assert_eq!(between(&numbers(0, 1000), &numbers(5000, 1000)).0.len(), 1000);
        assert_eq!(between(&numbers(0, 1000), &numbers(5000, 1001)).0.len(), 1);
        // Common prefixes and suffixes add no pairs.
        let long = |middle: usize| Value::from((0..2000).chain([middle]).chain(0..2000).collect::<Vec<_>>());
        assert_eq!(between(&long(1), &long(2)).0.len(), 1);
        let expected = json!([{"op": "replace", "path": "/2000", "value": 5001}]);
        check(&long(5000), &long(5001), &expected);
    }
}
