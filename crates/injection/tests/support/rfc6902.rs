//! Simple second implementation of RFC 6902, to apply patches in tests.

use serde_json::Value;

pub(crate) fn apply(document: &Value, patch: &Value) -> Result<Value, String> {
    let operations = patch.as_array().ok_or("a patch is a list")?;
    operations.iter().try_fold(document.clone(), |mut document, operation| {
        let text = |field: &str| operation[field].as_str().ok_or(format!("{operation} lacks {field}"));
        let (op, path) = (text("op")?, text("path")?);
        let value = operation.get("value").cloned();
        let keys: Vec<String> = path.split('/').skip(1).map(unescaped).collect();
        let Some((last, way)) = keys.split_last() else {
            return value.filter(|_| op != "remove").ok_or(format!("{operation}: the root stays"));
        };
        let parent = way.iter().try_fold(&mut document, |at, key| step(at, key))?;
        change(parent, last, op, value).map_err(|error| format!("{operation}: {error}"))?;
        Ok(document)
    })
}

fn unescaped(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

fn step<'a>(at: &'a mut Value, key: &str) -> Result<&'a mut Value, String> {
    match at {
        Value::Object(fields) => fields.get_mut(key),
        Value::Array(items) => items.get_mut(index(key)?),
        _ => None,
    }
    .ok_or(format!("there is nothing at {key:?}"))
}

fn index(key: &str) -> Result<usize, String> {
    let digits = key.bytes().all(|byte| byte.is_ascii_digit()) && (key == "0" || !key.starts_with('0'));
    key.parse().ok().filter(|_| digits).ok_or(format!("{key:?} is not an index"))
}

fn change(parent: &mut Value, key: &str, op: &str, value: Option<Value>) -> Result<(), String> {
    match op {
        "add" => {
            let value = value.ok_or("it lacks a value")?;
            match parent {
                Value::Object(fields) => drop(fields.insert(key.to_owned(), value)),
                Value::Array(items) => {
                    let at = if key == "-" { items.len() } else { index(key)? };
                    if at > items.len() {
                        return Err(format!("{at} is beyond the list's end"));
                    }
                    items.insert(at, value);
                }
                _ => return Err("the parent holds nothing".to_owned()),
            }
        }
        "replace" => *step(parent, key)? = value.ok_or("it lacks a value")?,
        "remove" => {
            step(parent, key)?;
            match parent {
                Value::Object(fields) => drop(fields.remove(key)),
                Value::Array(items) => drop(items.remove(index(key)?)),
                _ => {}
            }
        }
        other => return Err(format!("{other} is unknown here")),
    }
    Ok(())
}
