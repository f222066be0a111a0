//! The tour: one connection after the other, each told before it is made and proven after, against what the rules say.

use super::caller::ask;
use super::ground::{self, POD_V4, POD_V6};
use super::server::{self, Server};
use super::story::{Caller, Story, dashed};
use super::users::{Person, Users};
use super::{Exit, Failure, become_somebody, report, start};
use diagnose::Tone;
use diagnose::explain::{Pod, Scene, explain};
use mesh::Policy;
use mesh::pod::Skip;
use mesh::sources::Dialect;
use rules::Family;
use sidecar_init::sys::namespace::Held;
use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    os::fd::AsFd,
    thread,
    time::Duration,
};

/// What the tour can't show where there is one user only.
const SHARED: &str = "Only one user can be had here, so the rules can't tell the proxy from the application by its user. The \
    proxy makes its own calls from the world instead, and questions for names go where they are sent. Run this as root, or \
    with newuidmap and numbers in /etc/subuid and /etc/subgid, to see it all.";

/// What is toured.
pub(super) struct Tour<'a> {
    pub(super) capture: &'a dyn Policy,
    pub(super) users: Users,
    /// What sets the rules, as a command.
    pub(super) words: &'a str,
    /// How its author speaks of it.
    pub(super) dialect: &'a Dialect,
    /// Why nothing is captured, where a pod never is.
    pub(super) skip: Option<&'a Skip>,
}

/// What a reader on a terminal gets at most, all in all.
const MINUTE: Duration = Duration::from_secs(55);
/// No story takes longer to read.
const PAUSE: Duration = Duration::from_secs(7);
/// Lines longer than this are hard to read.
const WIDEST: usize = 100;

/// Shows all stories, and gives the exit code: whether each connection went as the rules say.
///
/// # Errors
/// When the application does not start, or nothing can be told any more.
pub(super) fn run(tour: &Tour<'_>, stories: &[Story], world: &Held, log: File) -> Result<u8, Failure> {
    let pod = Held::own().map_err(Failure::Lost)?;
    start("the application", &pod, || serve(tour, stories))?;
    let pause = pause(stories.len());
    // Whoever reads no more has been told so, and gets no more.
    if report::whole(&tour.introduction()) != Exit::Done {
        return Ok(Exit::Failed as u8);
    }
    thread::sleep(pause);
    let mut log = Log::of(log).map_err(Failure::Lost)?;
    let mut wrong = 0;
    for (number, story) in (1..).zip(stories) {
        let expected = tour.expected(story);
        if report::whole(&told(number, story, &expected)) != Exit::Done {
            return Ok(Exit::Failed as u8);
        }
        thread::sleep(pause / 2);
        let person = match story.caller {
            Caller::App | Caller::World => tour.users.app,
            Caller::Proxy => tour.users.proxy,
        };
        let from = (story.caller == Caller::World).then_some(world);
        let answer = ask(person, from, story.to, story.question).map_err(Failure::Lost)?;
        let heard = log.read().map_err(Failure::Lost)?;
        let fault = fault(&expected, &answer, &heard);
        wrong += usize::from(fault.is_some());
        if report::whole(&proof(story, person, &answer, &heard, &expected, fault)) != Exit::Done {
            return Ok(Exit::Failed as u8);
        }
        thread::sleep(pause / 2);
    }
    let printed = report::whole(&ending(stories.len(), wrong));
    Ok(if wrong == 0 { printed } else { Exit::Failed } as u8)
}

/// Nobody reads along where there is no terminal.
fn pause(stories: usize) -> Duration {
    let each = MINUTE / u32::try_from(stories + 1).unwrap_or(u32::MAX);
    if io::stdout().is_terminal() { each.min(PAUSE) } else { Duration::ZERO }
}

fn serve(tour: &Tour<'_>, stories: &[Story]) -> io::Result<()> {
    become_somebody(tour.users.app)?;
    let mut ports: Vec<u16> = stories.iter().filter_map(Story::port_in_the_pod).collect();
    ports.sort_unstable();
    ports.dedup();
    server::start(Server::Application, &ports, tour.capture.ipv6())
}

/// What the rules say about a connection.
struct Expected {
    captured: Option<bool>,
    sentence: String,
}

impl Tour<'_> {
    fn expected(&self, story: &Story) -> Expected {
        let addresses = [Some(POD_V4.into()), self.capture.ipv6().then_some(POD_V6.into())];
        let pod = Pod::new(addresses.into_iter().flatten(), Some(self.capture));
        let packet = story.packet(&self.users);
        let scene = Scene::of_config(self.capture, Family::of(story.to.ip()), &pod);
        let explained =
            explain(&scene.view, &scene.routing, &packet).in_words_of(self.dialect).of_skipped(self.skip);
        Expected { captured: explained.is_captured(), sentence: explained.sentence() }
    }

    /// What to know before the first story; on a terminal, how long it takes too.
    fn introduction(&self) -> String {
        let both = |v4: String, v6: String| if self.capture.ipv6() { format!("{v4} and {v6}") } else { v4 };
        let pod = both(POD_V4.to_string(), POD_V6.to_string());
        let world = both(ground::WORLD_V4.to_string(), ground::WORLD_V6.to_string());
        let listeners = self.capture.proxy().listeners;
        let (out, back) = (dashed(listeners.outbound), dashed(listeners.inbound));
        let mut text = wrapped(
            "",
            &format!(
                "This is a pod: a network of its own, with the addresses {pod}. A cable joins it to the rest of the world, \
                 {world}. An application runs in the pod, and beside it a proxy, which is to see what the application says \
                 and hears. Neither knows of the other. Rules in the kernel bring them together, and this has set them:"
            ),
        );
        text += &format!("\n  {}\n\n", Tone::Strong.paint(self.words));
        text += &wrapped(
            "",
            &format!(
                "The proxy listens at port {out} for what leaves the pod and at port {back} for what arrives. Below, each \
                 connection is a real one: who called whom, what the proxy tells, the answer, and the rules' reason."
            ),
        );
        if self.users.shared {
            text += &format!("\n{}", wrapped("", SHARED));
        }
        if io::stdout().is_terminal() {
            text += &format!(
                "\n{}\n",
                Tone::Quiet.paint("It takes a minute, at a reader's pace; Ctrl-C ends it.")
            );
        }
        text
    }
}

fn told(number: usize, story: &Story, expected: &Expected) -> String {
    let text = if expected.captured == Some(true) { &story.captured } else { &story.passing };
    let title = format!("{number}. {}", story.title);
    format!("\n{}\n{}", Tone::Strong.paint(title), wrapped("   ", text))
}

/// What is wrong with what has happened.
fn fault(expected: &Expected, answer: &Result<String, String>, heard: &[String]) -> Option<&'static str> {
    match (expected.captured, answer) {
        (Some(_), Err(_)) => Some("there is no answer"),
        (Some(true), Ok(_)) if heard.is_empty() => Some("the proxy has heard nothing of it"),
        (Some(false), Ok(_)) if !heard.is_empty() => Some("the proxy has got it"),
        (None, Ok(_)) => Some("it has got through"),
        (Some(_), Ok(_)) | (None, Err(_)) => None,
    }
}

fn proof(
    story: &Story,
    (uid, _): Person,
    answer: &Result<String, String>,
    heard: &[String],
    expected: &Expected,
    fault: Option<&str>,
) -> String {
    let who = match story.caller {
        Caller::App => format!("the application, uid {uid},"),
        Caller::Proxy => format!("the proxy, uid {uid},"),
        Caller::World => "a client".to_owned(),
    };
    let mut text = format!("\n   {} {who} calls {}\n", Tone::Quiet.paint(">"), story.to);
    for line in heard {
        text += &format!("   {} {line}\n", Tone::Quiet.paint(">"));
    }
    let answer = match answer {
        Ok(answer) => format!("answer: {answer}"),
        Err(error) => format!("no answer: {error}"),
    };
    text += &format!("   {} {answer}\n\n", Tone::Quiet.paint(">"));
    let tone = match expected.captured {
        Some(true) => Tone::Captured,
        Some(false) => Tone::Passing,
        None => Tone::Dropped,
    };
    let sentence = wrapped("   ", &expected.sentence);
    text += &match sentence.trim_start().split_once(':') {
        Some((verdict, reason)) => format!("   {}:{reason}", tone.paint(verdict)),
        None => sentence,
    };
    if let Some(fault) = fault {
        text += &format!("   {}\n", Tone::Dropped.paint(format!("WRONG: {fault}")));
    }
    text
}

fn ending(count: usize, wrong: usize) -> String {
    if wrong > 0 {
        let text = format!("{wrong} of {count} connections went otherwise than the rules say.");
        return format!("\n{}\n", Tone::Dropped.paint(text));
    }
    let next = "Run your own program in such a pod, or ask about a packet:\n\n  sidecar-init sandbox -- curl http://10.9.0.2\n  \
        sidecar-init explain -b '*' -i '*' --pod-ips 10.9.0.1 10.9.0.2:80\n";
    format!("\n{}\n\n{next}", Tone::Strong.paint(format!("All {count} connections went as the rules say.")))
}

/// The text in lines that fit, each behind some space.
fn wrapped(indent: &str, text: &str) -> String {
    fold(indent, text, report::width().min(WIDEST))
}

fn fold(indent: &str, text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n") + "\n"
}

/// What the proxy tells.
struct Log(File);

impl Log {
    fn of(file: File) -> io::Result<Self> {
        use nix::fcntl::{FcntlArg, OFlag, fcntl};
        fcntl(file.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self(file))
    }

    /// The lines since the last time. The proxy tells of a connection before it passes on anything, so what belongs to an
    /// answer is there when that is.
    fn read(&mut self) -> io::Result<Vec<String>> {
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.0.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => text.extend(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        assert_eq!(fold("  ", "one two  three four", 11), "  one two\n  three\n  four\n");
        assert_eq!(fold("", "", 10), "\n");
        assert_eq!(fold("", "too-long-for-it a", 5), "too-long-for-it\na\n");
    }
}
