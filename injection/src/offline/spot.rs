//! Where in a manifest something stands that a problem names: an annotation, or a field by its path.

use super::place::line_number;
use super::written::{Form, Node};

/// The line of what a problem's name is about, in the tree of a pod or a template; `None` if nothing of it stands there.
pub(super) fn line(text: &str, pod: &Node, name: &str) -> Option<usize> {
    let mark = annotation(pod, name).or_else(|| field(pod, name.rsplit(": ").next()?))?;
    Some(line_number(text, mark))
}

/// The annotation or label that the name speaks of: of several, the longest.
fn annotation(pod: &Node, name: &str) -> Option<usize> {
    let of = |pointer: &str| match pod.at(pointer).map(|node| &node.form) {
        Some(Form::Map(_, entries)) => &entries[..],
        _ => &[],
    };
    let all = of("/metadata/annotations").iter().chain(of("/metadata/labels"));
    let named = all.filter(|entry| name.contains(&entry.key) && entry.key.contains('/'));
    named.max_by_key(|entry| entry.key.len()).map(|entry| entry.mark)
}

/// A field by a path such as `spec.containers[0].env`, as far as it leads.
fn field(pod: &Node, path: &str) -> Option<usize> {
    let (mut node, mut rest, mut found) = (pod, path, None);
    loop {
        let step = match &node.form {
            Form::Map(_, entries) => entries
                .iter()
                .filter_map(|entry| {
                    let rest = rest.strip_prefix(entry.key.as_str())?;
                    let ends = rest.is_empty() || rest.starts_with(['.', '[']);
                    ends.then_some((entry.mark, &entry.node, rest.strip_prefix('.').unwrap_or(rest)))
                })
                .min_by_key(|(_, _, rest)| rest.len()),
            Form::List(_, items) => {
                rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).and_then(|(number, rest)| {
                    let item = items.get(number.parse::<usize>().ok()?)?;
                    Some((item.mark, &item.node, rest.strip_prefix('.').unwrap_or(rest)))
                })
            }
            Form::Scalar | Form::Lines | Form::Alias(_) => None,
        };
        let Some((mark, inner, further)) = step else { return found };
        (found, node, rest) = (Some(mark), inner, further);
    }
}
