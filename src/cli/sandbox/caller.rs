//! Calls for the tour, each by a process of its own that is who it says: a connection with a question, and the answer.

use super::become_somebody;
use super::users::Person;
use sidecar_init::sys::{
    fork::{fork, pipe},
    namespace::Held,
    tcp,
};
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Who is there, over HTTP.
    Hello,
    /// The address of this name, over UDP.
    Name(&'static str),
}

const PATIENCE: Duration = Duration::from_secs(20);

/// Asks as somebody, perhaps from another network namespace, and gives the answer or what went wrong.
pub(super) fn ask(
    person: Person,
    from: Option<&Held>,
    to: SocketAddr,
    question: Question,
) -> io::Result<Result<String, String>> {
    let (mut reader, writer) = pipe()?;
    let mut writer = Some(writer);
    let child = fork(|| {
        let entered = from.map_or(Ok(()), Held::enter).and_then(|()| become_somebody(person));
        let answer = entered.and_then(|()| match question {
            Question::Hello => hello(to),
            Question::Name(name) => address(to, name),
        });
        let (text, code) = match answer {
            Ok(text) => (text, 0),
            Err(error) => (error.to_string(), 1),
        };
        let told = writer.take().map(|mut writer| writer.write_all(text.as_bytes()));
        if told.is_some_and(|told| told.is_ok()) { code } else { 1 }
    })?;
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    Ok(if child.wait()? == 0 { Ok(text) } else { Err(text) })
}

fn hello(to: SocketAddr) -> io::Result<String> {
    let mut stream = tcp::call(tcp::From::default(), to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.trim_end().to_owned()),
        _ => Err(io::Error::other("the answer is none of ours")),
    }
}

fn address(server: SocketAddr, name: &str) -> io::Result<String> {
    let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // One question of class 1, for an address of type 1 (RFC 1035, 4.1); recursion is desired.
    let mut question = vec![0x51, 0xca, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        question.push(u8::try_from(label.len()).map_err(io::Error::other)?);
        question.extend(label.as_bytes());
    }
    question.extend([0, 0, 1, 0, 1]);
    socket.send(&question)?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    match answer[..length] {
        [0x51, 0xca, .., a, b, c, d] if length > question.len() => Ok(format!("{name} is {a}.{b}.{c}.{d}")),
        _ => Err(io::Error::other("the answer is none of ours")),
    }
}
