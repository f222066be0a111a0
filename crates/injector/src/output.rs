//! Standard output and standard error, of which a closed pipe is not a failure; and files that are replaced at once, or not at
//! all.

use clap::ValueEnum;
use command_line::columns;
use diagnose::{Style, fold};
use mesh::data::{Tree, yaml};
use mesh::visible_lines;
use serde_json::{Value, json};
use std::{
    fmt::Display,
    fs,
    io::{self, Write},
    path::Path,
    process,
    time::SystemTime,
};

/// The column under which a folded line of a message goes on.
const HANG: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourChoice {
    Auto,
    Always,
    Never,
}

impl ColourChoice {
    /// Decides it for all that is printed from now on.
    pub(crate) fn choose(self) {
        match self {
            Self::Auto => {}
            Self::Always => anstream::ColorChoice::Always.write_global(),
            Self::Never => anstream::ColorChoice::Never.write_global(),
        }
    }
}

pub(crate) fn print_styled(text: &str) -> io::Result<()> {
    ignoring_closed_pipes(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// The same for people: a terminal gets lines that fit it, which go on under a column.
pub(crate) fn print_folded(text: &str, hang: usize) -> io::Result<()> {
    print_styled(&fold(text, hang, columns::of_line(&io::stdout())))
}

/// Leaves text unchanged: it may contain anything.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    ignoring_closed_pipes(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Goes to standard error; on a terminal, in lines that fit it.
pub(crate) fn report(text: impl Display) {
    let text = fold(&text.to_string(), HANG, columns::of_line(&io::stderr()));
    // The output and the exit code are what count.
    let _ = writeln!(anstream::stderr(), "{text}");
}

pub(crate) fn fail(text: impl Display) {
    report(format_args!("{} {}", Style::Dropped.paint("error:"), visible_lines(&text.to_string())));
}

pub(crate) fn warn(text: impl Display) {
    report(format_args!("{} {}", Style::Passing.paint("warning:"), visible_lines(&text.to_string())));
}

/// A reader that has enough, such as `head`, is not an error.
fn ignoring_closed_pipes(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

pub(crate) fn document(object: &Value) -> String {
    yaml::block(&Tree::read(&object.to_string()))
}

pub(crate) fn objects(objects: &[Value], is_json: bool) -> String {
    match is_json {
        true => format!("{:#}\n", json!({ "apiVersion": "v1", "kind": "List", "items": objects })),
        false => objects.iter().map(document).collect::<Vec<_>>().join("---\n"),
    }
}

/// Writes a file: beside it first, then in its place, so that no reader sees a part of it. What is not a file, such as a
/// pipe, is written to.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    written(path, text).map_err(|error| {
        io::Error::new(error.kind(), format!("--output: {} can't be written: {error}", path.display()))
    })
}

fn written(path: &Path, text: &str) -> io::Result<()> {
    let (path, old) = match fs::metadata(path) {
        // A pipe may have no other path than the given one: /dev/stdout leads to /proc/1/fd/pipe:[1], which does not exist.
        Ok(old) if !old.is_file() => {
            return fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes());
        }
        // What a link leads to is replaced, not the link.
        Ok(old) => (fs::canonicalize(path)?, Some(old)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
        Err(error) => return Err(error),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // In a container, each run has the same process id, and a killed one may have left its file.
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let beside = path.with_file_name(format!(".{name}.{}-{nanos}", process::id()));
    let done = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
        // Before it holds anything: the old file may be private.
        if let Some(old) = old {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &path)
    })();
    if done.is_err() {
        // The first error is reported.
        let _ = fs::remove_file(&beside);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_killed_run_left_in_a_container_stopped_the_next_one() {
        let folder = testkit::folder::Folder::new("replace");
        folder.write(&format!(".out.yaml.{}", process::id()), "half");
        let done = replace(&folder.join("out.yaml"), "whole");
        let text = fs::read_to_string(folder.join("out.yaml")).unwrap_or_default();
        assert_eq!((done.map_err(|error| error.to_string()), &*text), (Ok(()), "whole"));
    }
}
