//! Paths, as texts: nothing is looked up.

use super::{functions, text};
use crate::mount_path::clean;

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
}

fn base(path: &str) -> &str {
    match (path, path.trim_end_matches('/')) {
        ("", _) => ".",
        (_, "") => "/",
        (_, path) => path.rsplit('/').next().unwrap_or(path),
    }
}
