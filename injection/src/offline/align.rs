//! Which item of a new list is which item of the old one.

use serde_json::Value;
use std::collections::BTreeMap;

/// Where an item of the new list comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It is the old item of this number, and stands in the same order as the others that are kept.
    Kept(usize),
    /// It is that item, which stood elsewhere.
    Moved(usize),
    New,
}

/// What items of Kubernetes' lists may be known by.
const KEYS: [&str; 6] = ["name", "mountPath", "containerPort", "devicePath", "ip", "key"];

/// Lists whose lengths have a greater product are compared at their ends alone.
const MOST_CELLS: usize = 4_000_000;

/// For each item of the new list, where it comes from.
pub(super) fn align(old: &[Value], new: &[Value]) -> Vec<Source> {
    match KEYS.iter().find_map(|key| Some((index(old, key)?, index(new, key)?))) {
        Some((old, new)) => by_key(&old, &new),
        None => by_value(old, new),
    }
}

/// The items by a key's text; `None` if it doesn't tell all of them apart.
fn index<'a>(items: &'a [Value], key: &str) -> Option<BTreeMap<String, (usize, &'a Value)>> {
    let mut found = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        let said = item.get(key).filter(|said| said.is_string() || said.is_number())?;
        if found.insert(said.to_string(), (at, item)).is_some() {
            return None;
        }
    }
    Some(found)
}

fn by_key(old: &BTreeMap<String, (usize, &Value)>, new: &BTreeMap<String, (usize, &Value)>) -> Vec<Source> {
    let mut matched = vec![None; new.len()];
    for (key, (at, _)) in new {
        matched[*at] = old.get(key).map(|(at, _)| *at);
    }
    let stay = longest_increasing(&matched.iter().flatten().copied().collect::<Vec<_>>());
    let source = |at: &Option<usize>| match at {
        Some(at) if stay.binary_search(at).is_ok() => Source::Kept(*at),
        Some(at) => Source::Moved(*at),
        None => Source::New,
    };
    matched.iter().map(source).collect()
}

/// A longest increasing part of numbers that are all different.
fn longest_increasing(numbers: &[usize]) -> Vec<usize> {
    // For each length, the place of the smallest number that such a part can end with; and what stands before each.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    for (at, number) in numbers.iter().enumerate() {
        let length = ends.partition_point(|end| numbers[*end] < *number);
        before.push(length.checked_sub(1).map(|last| ends[last]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut found = Vec::new();
    let mut at = ends.last().copied();
    while let Some(place) = at {
        found.push(numbers[place]);
        at = before[place];
    }
    found.reverse();
    found
}

fn by_value(old: &[Value], new: &[Value]) -> Vec<Source> {
    let head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let tail =
        old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(old, new)| old == new).count();
    let (inner_old, inner_new) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut sources: Vec<Source> = (0..head).map(Source::Kept).collect();
    // Between items that are the same, others may be the same but for a part of them.
    let (mut from, mut to) = (0, 0);
    for (end_old, end_new) in
        common(inner_old, inner_new, Value::eq).into_iter().chain([(inner_old.len(), inner_new.len())])
    {
        let mut next = to;
        let pairs = match end_old - from == end_new - to {
            true => (0..end_old - from).map(|at| (at, at)).collect(),
            false => common(&inner_old[from..end_old], &inner_new[to..end_new], alike),
        };
        for (of_old, of_new) in pairs {
            sources.extend((next..to + of_new).map(|_| Source::New));
            sources.push(Source::Kept(head + from + of_old));
            next = to + of_new + 1;
        }
        sources.extend((next..end_new).map(|_| Source::New));
        if end_new < inner_new.len() {
            sources.push(Source::Kept(head + end_old));
        }
        (from, to) = (end_old + 1, end_new + 1);
    }
    sources.extend((old.len() - tail..old.len()).map(Source::Kept));
    sources
}

/// Whether one item may be the other after a change: mappings that have an entry or all their keys in common.
fn alike(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.iter().any(|(key, value)| new.get(key) == Some(value)) || old.keys().eq(new.keys())
        }
        (Value::Array(_), Value::Array(_)) => true,
        (old, new) => !old.is_object() && !old.is_array() && !new.is_object() && !new.is_array(),
    }
}

/// The pairs of a longest common part; none where that would take too long.
fn common(old: &[Value], new: &[Value], same: impl Fn(&Value, &Value) -> bool) -> Vec<(usize, usize)> {
    if old.len().saturating_mul(new.len()) > MOST_CELLS {
        return Vec::new();
    }
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for (row, item) in old.iter().enumerate().rev() {
        for (column, other) in new.iter().enumerate().rev() {
            longest[row * width + column] = match same(item, other) {
                true => longest[(row + 1) * width + column + 1] + 1,
                false => longest[(row + 1) * width + column].max(longest[row * width + column + 1]),
            };
        }
    }
    let (mut row, mut column, mut found) = (0, 0, Vec::new());
    while row < old.len() && column < new.len() {
        if same(&old[row], &new[column]) {
            found.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if longest[(row + 1) * width + column] >= longest[row * width + column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(old: &Value, new: &Value, expected: &str) {
        let empty = Vec::new();
        let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
        let told = align(&list(old), &list(new)).into_iter().map(|source| match source {
            Source::Kept(at) => format!("{at}"),
            Source::Moved(at) => format!("<{at}"),
            Source::New => "+".to_owned(),
        });
        assert_eq!(told.collect::<Vec<_>>().join(" "), expected, "{old} {new}");
    }

    #[test]
    fn items_are_known_again() {
        let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
        check(&named(&["a", "b"]), &named(&["x", "a", "b", "y"]), "+ 0 1 +");
        check(&named(&["a", "b", "c"]), &named(&["c", "a", "b"]), "<2 0 1");
        check(&named(&["a", "b", "c"]), &named(&["a", "c"]), "0 2");
        let mounts = json!([{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]);
        check(&mounts, &json!([{"name": "v", "mountPath": "/b"}]), "1");
        check(&json!(["-u", "1337", "-m", "R"]), &json!(["-u", "7", "-m", "R", "x"]), "0 1 2 3 +");
        check(&json!([1, 2, 3]), &json!([0, 1, 3]), "+ 0 2");
        check(&json!([{"a": 1, "b": 2}, [1]]), &json!([{"x": 1}, {"a": 1}, [1]]), "+ 0 1");
        check(&json!([1, [2]]), &json!([{"x": 1}, 3]), "0 1");
        check(&json!([]), &json!([1]), "+");
        check(&json!([1, 2]), &json!([]), "");
    }
}
