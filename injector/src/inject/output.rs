//! Where the outcome goes: standard output, or a file that is replaced at once.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    process,
};

/// Prints text with its colours, where they are wanted.
pub(super) fn print(text: &str) -> io::Result<()> {
    ignoring_closed_pipes(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// Prints text as it is: it may hold whatever its author wrote.
pub(super) fn print_plain(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    ignoring_closed_pipes(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Whoever has read enough, such as `head`, is no error.
fn ignoring_closed_pipes(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Writes a file: beside it first, then in its place, so that nobody ever sees a part of it. What is no file, such as a
/// pipe, is written to.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    written(path, text).map_err(|error| {
        io::Error::new(error.kind(), format!("--output: {} can't be written: {error}", path.display()))
    })
}

fn written(path: &Path, text: &str) -> io::Result<()> {
    // What a link leads to is replaced, not the link.
    let (path, old) = match fs::canonicalize(path) {
        Ok(path) => {
            let old = fs::metadata(&path)?;
            (path, Some(old))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
        Err(error) => return Err(error),
    };
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", process::id()));
    let done = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
        file.write_all(text.as_bytes())?;
        if let Some(old) = old {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&beside, &path)
    })();
    if done.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&beside);
    }
    done
}
