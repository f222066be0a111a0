//! Output of the commands: objects, with or without colours; and atomic replacement of files.

use clap::ValueEnum;
pub(crate) use command_line::output::{fail, print, print_folded, print_styled, report, warn};
use mesh::data::{Tree, yaml};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::{fs, path::Path, process};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourChoice {
    Auto,
    Always,
    Never,
}

impl ColourChoice {
    pub(crate) fn choose(self) {
        match self {
            Self::Auto => {}
            Self::Always => anstream::ColorChoice::Always.write_global(),
            Self::Never => anstream::ColorChoice::Never.write_global(),
        }
    }
}

pub(crate) fn document(object: &Value) -> String {
    yaml::block(&Tree::read(&object.to_string()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectFormat {
    /// YAML documents
    Yaml,
    /// A JSON List, or the single object
    Json,
}

pub(crate) fn objects(objects: &[Value], format: ObjectFormat) -> String {
    match format {
        ObjectFormat::Json => {
            format!("{:#}\n", json!({ "apiVersion": "v1", "kind": "List", "items": objects }))
        }
        ObjectFormat::Yaml => objects.iter().map(document).collect::<Vec<_>>().join("---\n"),
    }
}

/// Replaces a file atomically, using a temporary file beside it. Other targets, such as pipes, are written directly.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    written(path, text).map_err(|error| {
        io::Error::new(error.kind(), format!("--output: {} can't be written: {error}", path.display()))
    })
}

fn written(path: &Path, text: &str) -> io::Result<()> {
    let (path, old) = match fs::metadata(path) {
        // Pipes are opened by the given path: /dev/stdout resolves to /proc/1/fd/pipe:[1], which does not exist.
        Ok(old) if !old.is_file() => {
            return fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes());
        }
        // Replaces the target of a link, not the link.
        Ok(old) => (fs::canonicalize(path)?, Some(old)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
        Err(error) => return Err(error),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // In a container, each run has the same process ID, and a killed run may have left its file.
    let beside = path.with_file_name(format!(".{name}.{}-{:x}", process::id(), fastrand::u64(..)));
    let done = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
        // Permissions are set while the file is empty: the old file may be private.
        if let Some(old) = old {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &path)
    })();
    if done.is_err() {
        // Only the first error is reported.
        let _ = fs::remove_file(&beside);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_of_a_killed_run_stops_no_later_one() {
        let folder = testkit::folder::Folder::new("replace");
        folder.write(&format!(".out.yaml.{}", process::id()), "half");
        let done = replace(&folder.join("out.yaml"), "whole");
        let text = fs::read_to_string(folder.join("out.yaml")).unwrap_or_default();
        assert_eq!((done.map_err(|error| error.to_string()), &*text), (Ok(()), "whole"));
    }
}
