//! Paths and URLs, as texts: nothing is looked up.

use super::{FunctionResult, field, functions, map_of, text};
use crate::mount_path::clean;
use gtmpl_ng::Value;

functions! {
    "base" | "osBase" reads 1..=1, |args| Ok(base(&text(&args[0])).into());
    "dir" | "osDir" reads 1..=1, |args| {
        let path = text(&args[0]);
        Ok(clean(path.rfind('/').map_or("", |slash| &path[..=slash])).into())
    };
    "clean" | "osClean" reads 1..=1, |args| Ok(clean(&text(&args[0])).into());
    "ext" | "osExt" reads 1..=1, |args| {
        let path = text(&args[0]);
        let name = path.rsplit('/').next().unwrap_or_default();
        Ok(name.rfind('.').map_or("", |dot| &name[dot..]).into())
    };
    "isAbs" | "osIsAbs" reads 1..=1, |args| Ok(text(&args[0]).starts_with('/').into());
    "urlParse" reads 1..=1, |args| parsed(&text(&args[0]));
    "urlJoin" reads 1..=1, joined;
}

fn base(path: &str) -> &str {
    match (path, path.trim_end_matches('/')) {
        ("", _) => ".",
        (_, "") => "/",
        (_, path) => path.rsplit('/').next().unwrap_or(path),
    }
}

/// The parts of a URL by their names; those that it lacks are empty.
fn parsed(url: &str) -> FunctionResult {
    if url.chars().any(|c| c.is_ascii_control()) {
        return Err(format!("takes a URL, and {url:?} holds a control character"));
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let is_scheme = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        Some(("", _)) => return Err(format!("takes a URL, and {url:?} lacks the scheme before its colon")),
        _ => (String::new(), rest),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (mut opaque, mut authority, mut path) = ("", "", rest);
    // Three slashes without a scheme begin a path.
    let has_authority = !scheme.is_empty() || !rest.starts_with("///");
    if let Some(behind) = rest.strip_prefix("//").filter(|_| has_authority) {
        let end = behind.find('/').unwrap_or(behind.len());
        (authority, path) = behind.split_at(end);
    } else if !scheme.is_empty() && !rest.starts_with('/') && !rest.is_empty() {
        (opaque, path) = (rest, "");
    } else if scheme.is_empty() && rest.split('/').next().is_some_and(|first| first.contains(':')) {
        return Err(format!("takes a URL, and {url:?} has no valid scheme before its colon"));
    }
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _)) => name,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    if !host.ends_with(']') && !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("takes a URL, and the port of {url:?} is not a number"));
    }
    Ok(map_of([
        ("scheme", scheme.into()),
        ("host", host.into()),
        ("hostname", name.into()),
        ("path", unescaped(path)?.into()),
        ("query", query.into()),
        ("opaque", opaque.into()),
        ("fragment", unescaped(fragment)?.into()),
        ("userinfo", user.into()),
    ]))
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits: Vec<u8> = rest.by_ref().take(2).collect();
        let digits = str::from_utf8(&digits).ok().filter(|digits| digits.len() == 2 && !digits.contains('+'));
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(
            code.ok_or_else(|| format!("takes a URL, and {text:?} holds a % without two digits behind it"))?,
        );
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// With `%` and two digits for what means something else there, or is not a printable character of ASCII.
fn escaped(text: &str, plain: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || plain.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
        out
    })
}

fn joined(args: &[Value]) -> FunctionResult {
    let part =
        |name: &str| Ok::<String, String>(field(&args[0], &name.into())?.map(text).unwrap_or_default());
    let (scheme, host, path, user) = (part("scheme")?, part("host")?, part("path")?, part("userinfo")?);
    let (query, opaque, fragment) = (part("query")?, part("opaque")?, part("fragment")?);
    let mut url = if scheme.is_empty() { String::new() } else { format!("{scheme}:") };
    if opaque.is_empty() {
        if !scheme.is_empty() || !host.is_empty() || !user.is_empty() {
            if !host.is_empty() || !path.is_empty() || !user.is_empty() {
                url += "//";
            }
            if !user.is_empty() {
                url += &format!("{user}@");
            }
            url += &host;
        }
        // An asterisk alone stands for the server itself.
        let path = if path == "*" { path } else { escaped(&path, "-_.~$&+,/:;=@") };
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            url.push('/');
        } else if url.is_empty() && path.split('/').next().is_some_and(|first| first.contains(':')) {
            // What precedes the colon would be a scheme.
            url += "./";
        }
        url += &path;
    } else {
        url += &opaque;
    }
    if !query.is_empty() {
        url += &format!("?{query}");
    }
    if !fragment.is_empty() {
        url += &format!("#{}", escaped(&fragment, "-_.~$&+,/:;=?@!()*"));
    }
    Ok(url.into())
}
