//! A session in a container, over WebSocket as kubelets serve it: the first byte of a message is the number of its stream
//! (subprotocol `v5.channel.k8s.io` of k8s.io/apimachinery, `pkg/util/remotecommand`).

use super::{kinds::Target, refusal::Refusal, serve::refuse, state::Shared};
use crate::http::{Connection, Request};
use serde_json::{Value, json};
use std::{
    io::{self, ErrorKind, Read, Write},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, Sender, TryRecvError, channel},
    thread,
    time::Duration,
};
use tungstenite::{
    Error, Message, WebSocket,
    handshake::derive_accept_key,
    protocol::{CloseFrame, Role, frame::coding::CloseCode},
};

const PROTOCOL: &str = "v5.channel.k8s.io";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
/// The end of the command.
const STATUS: u8 = 3;
/// The client will write nothing more to the stream that the next byte names.
const CLOSE: u8 = 255;

pub(crate) fn serve(
    connection: &mut Connection,
    request: &Request,
    target: &Target,
    shared: &Shared,
) -> io::Result<()> {
    let (Some(key), true) = (
        request.header("sec-websocket-key"),
        request.header("sec-websocket-protocol").is_some_and(|offered| offered.contains(PROTOCOL)),
    ) else {
        let message = format!("a session is over WebSocket, by {PROTOCOL}");
        return refuse(connection, &Refusal { code: 400, reason: "BadRequest", message });
    };
    let (words, runtime) = {
        let state = shared.state();
        let words = match state.find("pods", &target.namespace, &target.name) {
            Some(pod) if target.part == "attach" => {
                words_of(pod, request.parameter("container").unwrap_or_default())
            }
            _ => request.parameters("command").map(str::to_owned).collect(),
        };
        (words, state.runtime.clone().expect("the test says what containers run"))
    };
    let mut command = runtime(&words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let accept = derive_accept_key(key.as_bytes());
    connection.write_all(
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
        )
        .as_bytes(),
    )?;
    connection.flush()?;
    // Reading must not hold up what the command prints.
    connection.sock.set_read_timeout(Some(Duration::from_millis(10)))?;
    let done = relay(&mut WebSocket::from_raw_socket(connection, Role::Server, None), &mut child);
    // Without its client, or at its end.
    let _ = child.kill();
    child.wait()?;
    done.map_err(io::Error::other)?;
    Err(ErrorKind::ConnectionAborted.into())
}

/// The command of an ephemeral container.
fn words_of(pod: &Value, container: &str) -> Vec<String> {
    let mut containers = pod["spec"]["ephemeralContainers"].as_array().into_iter().flatten();
    let found = containers.find(|one| one["name"] == container);
    let words = |field: &str| found.and_then(|one| one[field].as_array()).into_iter().flatten();
    words("command").chain(words("args")).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Carries both directions until the command has ended and all that it printed is sent, or the client has gone.
fn relay(socket: &mut WebSocket<&mut Connection>, child: &mut Child) -> Result<(), Error> {
    let (printed, output) = channel();
    copy(child.stdout.take().expect("a pipe"), STDOUT, printed.clone());
    copy(child.stderr.take().expect("a pipe"), STDERR, printed);
    let mut stdin = child.stdin.take();
    while forward(socket, &output)? {
        match received(socket)? {
            Some(Message::Binary(message)) => write(&message, &mut stdin),
            Some(Message::Close(_)) => return Ok(()),
            _ => {}
        }
    }
    drop(stdin);
    let status = match child.wait()?.code() {
        Some(0) => json!({ "metadata": {}, "status": "Success" }),
        code => {
            let code = code.unwrap_or(137);
            json!({ "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                "message": format!("command terminated with non-zero exit code: exit status {code}"),
                "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] } })
        }
    };
    socket.send(Message::binary([&[STATUS], status.to_string().as_bytes()].concat()))?;
    socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))?;
    // What is sent is lost if the connection ends before the client has read it.
    loop {
        match received(socket) {
            Ok(_) => {}
            Err(Error::ConnectionClosed) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// `None` if nothing has arrived for a while.
fn received(socket: &mut WebSocket<&mut Connection>) -> Result<Option<Message>, Error> {
    match socket.read() {
        Ok(message) => Ok(Some(message)),
        Err(Error::Io(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Sends the command's output so far; false if there is no more.
fn forward(socket: &mut WebSocket<&mut Connection>, output: &Receiver<Vec<u8>>) -> Result<bool, Error> {
    loop {
        match output.try_recv() {
            Ok(message) => socket.send(Message::binary(message))?,
            Err(error) => return Ok(error == TryRecvError::Empty),
        }
    }
}

fn copy(mut from: impl Read + Send + 'static, stream: u8, to: Sender<Vec<u8>>) {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length) = from.read(&mut buffer) {
            if length == 0 || to.send([&[stream], &buffer[..length]].concat()).is_err() {
                break;
            }
        }
    });
}

fn write(message: &[u8], stdin: &mut Option<ChildStdin>) {
    match message {
        // A command need not read its input.
        [STDIN, text @ ..] => drop(stdin.as_mut().map(|stdin| stdin.write_all(text))),
        [CLOSE, STDIN] => *stdin = None,
        _ => {}
    }
}
