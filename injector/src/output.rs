//! What is printed on standard output. That nobody reads on is no failure.

use policy::data::{Tree, yaml};
use serde_json::Value;
use std::io::{self, Write};

/// Prints text with its colours, where they are wanted.
pub(crate) fn print_styled(text: &str) -> io::Result<()> {
    ignoring_closed_pipes(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// Prints text as it is: it may hold whatever its author wrote.
pub(crate) fn print(text: &str) -> io::Result<()> {
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

/// An object as a document of YAML.
pub(crate) fn document(object: &Value) -> String {
    yaml::block(&Tree::read(&object.to_string()))
}
