//! Tests' child processes.

use crate::{
    command, until,
    wait::{TIMEOUT, poll},
};
use std::{
    io::{BufRead, BufReader},
    ops::{Deref, DerefMut},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};

#[derive(Debug)]
pub struct Running(pub Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running program with its log lines from standard error, killed on drop.
pub struct Logged {
    child: Running,
    lines: Arc<Mutex<(Vec<String>, bool)>>,
}

impl Logged {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let lines: Arc<Mutex<(Vec<String>, bool)>> = Arc::default();
        let read = Arc::clone(&lines);
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                read.lock().expect("no test has failed inside").0.push(line);
            }
            read.lock().expect("no test has failed inside").1 = true;
        });
        Self { child: Running(child), lines }
    }

    pub fn log(&self) -> String {
        self.lines.lock().expect("no test has failed inside").0.join("\n")
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    #[track_caller]
    pub fn until_logged<T>(&self, what: &str, look: impl Fn(&[String]) -> Option<T>) -> T {
        let found = poll(TIMEOUT, || {
            let lines = self.lines.lock().expect("no test has failed inside");
            let found = look(&lines.0);
            // A program that has ended logs no more lines.
            if lines.1 { Some(found) } else { found.map(Some) }
        });
        found.flatten().unwrap_or_else(|| panic!("{what} is not in\n{}", self.log()))
    }

    pub fn signal(&self, name: &str) {
        command("kill", &[&format!("-{name}"), &self.id().to_string()]);
    }

    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the program ends", || {
            status = self.child.try_wait().expect("a child");
            status.is_some() && self.lines.lock().expect("no test has failed inside").1
        });
        status.expect("the program has ended")
    }

    /// Ends the program like a kubelet and returns its exit code.
    #[track_caller]
    pub fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.wait().code()
    }

    pub fn lines(&self, message: &str) -> Vec<serde_json::Value> {
        with_message(&self.lines.lock().expect("no test has failed inside").0, message).collect()
    }

    pub fn line(&self, message: &str) -> Option<serde_json::Value> {
        self.lines(message).pop()
    }

    #[track_caller]
    pub fn until_line(&self, message: &str) -> serde_json::Value {
        self.until_logged(message, |lines| with_message(lines, message).next())
    }
}

fn with_message(lines: &[String], message: &str) -> impl Iterator<Item = serde_json::Value> {
    let read = lines.iter().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    read.filter(move |line| line["message"] == *message)
}
