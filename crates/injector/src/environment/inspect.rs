//! `environment inspect`: asks the operator on the same machine.

use crate::output::print;
use clap::{Args, Subcommand};
use std::{
    error::Error,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    process::ExitCode,
    time::Duration,
};

/// The operator's default address, as upstream's.
pub(super) const ADDRESS: &str = "127.0.0.1:8000";
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BYTES: u64 = 256 << 20;

#[derive(Args)]
pub(crate) struct InspectFlags {
    #[command(subcommand)]
    question: InspectCommand,
    /// Address of the operator
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS, global = true)]
    address: SocketAddr,
}

#[derive(Subcommand)]
enum InspectCommand {
    /// Show its active VirtualEnvironment, Services and labels of workloads
    Status,
    /// Show its version
    Version,
    /// Show or set its log level
    Log {
        /// level=ERROR, level=INFO or level=DEBUG
        level: Option<String>,
    },
}

pub(crate) fn run(flags: &InspectFlags) -> Result<ExitCode, Box<dyn Error>> {
    let path = match &flags.question {
        InspectCommand::Status => "/status".to_owned(),
        InspectCommand::Version => "/version".to_owned(),
        InspectCommand::Log { level: None } => "/log".to_owned(),
        InspectCommand::Log { level: Some(level) } => format!("/log?{}", encoded(level)),
    };
    let address = flags.address;
    let (status, body) = ask(address, &path).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("--address {address}: {error}; try again"),
        _ => format!(
            "--address {address}: no operator answers there: {error}; expected the address of its --status-address"
        ),
    })?;
    print(&body)?;
    if !body.ends_with('\n') {
        print("\n")?;
    }
    Ok(if status >= 400 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// A query, percent-encoded as a request line needs it.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"=&-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The status and the body of an answer. HTTP/1.0, so that the connection's end is the answer's; one that ends before its
/// `Content-Length` is an error.
fn ask(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_BYTES).read_to_end(&mut answer)?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "what answers does not speak HTTP");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or_else(wrong)?;
    let (head, body) = (String::from_utf8_lossy(&answer[..end]), &answer[end + 4..]);
    let status =
        head.strip_prefix("HTTP/1.").and_then(|head| head.get(2..5)).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(wrong)?;
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, value)| value.trim().parse::<usize>().ok());
    if let Some(length) = length.filter(|length| *length > body.len()) {
        let text = format!("the answer ends after {} of {length} bytes", body.len());
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
    }
    Ok((status, String::from_utf8_lossy(body).into_owned()))
}
