//! The netlink socket and its batches, each of which takes effect as a whole or not at all.

use super::batch::{Batch, BatchOperation};
use crate::sys::netfilter::{body, message_type, nfgenmsg};
use crate::sys::netlink::{NetlinkSocket, Rejection};
use crate::sys::{header::*, message::number};
use nix::libc;
use std::io;

pub struct Nftables {
    pub(super) socket: NetlinkSocket,
    pub(super) table: &'static str,
}

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("another program changed nf_tables at the same time")]
    Conflict(#[source] io::Error),
    #[error("the kernel refused {subject}{}", .explanation.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        subject: String,
        /// The rejected expression of a rule, and the kernel's message.
        explanation: Option<String>,
        source: io::Error,
    },
}

impl Refusal {
    pub(crate) fn of(subject: impl Into<String>, source: io::Error) -> Self {
        Self::Refused { subject: subject.into(), explanation: None, source }
    }

    pub fn cause(&self) -> &io::Error {
        match self {
            Self::Conflict(source) | Self::Refused { source, .. } => source,
        }
    }
}

pub(super) const TRIES: usize = 10;

pub fn retry<T>(mut change: impl FnMut() -> Result<T, Refusal>) -> Result<T, Refusal> {
    for _ in 1..TRIES {
        match change() {
            Err(Refusal::Conflict(_)) => {}
            done => return done,
        }
    }
    change()
}

impl Nftables {
    /// Opens a socket for our table: family `inet`, this name.
    pub fn open(table: &'static str) -> io::Result<Self> {
        Ok(Self { socket: NetlinkSocket::open(NETLINK_NETFILTER)?, table })
    }

    pub(super) fn commit(
        &mut self,
        jobs: &[BatchOperation<'_>],
        generation: Option<u32>,
    ) -> Result<(), Refusal> {
        if jobs.is_empty() {
            return Ok(());
        }
        let first = self.socket.next_sequence();
        let batch = Batch::new(jobs, first, generation);
        let sequences = first..first + batch.count();
        let acknowledged = sequences.end - 2;
        let sent = self.socket.batch(batch.messages.bytes(), sequences, acknowledged);
        sent.map_err(|rejection| refusal(&batch, first, jobs, rejection))
    }

    pub fn generation(&mut self) -> io::Result<u32> {
        let answer = self.socket.one(kind(NFT_MSG_GETGEN), &nfgenmsg(NFPROTO_UNSPEC, 0), |_| {})?;
        let id = body(&answer).and_then(|answer| number(answer, NFTA_GEN_ID));
        id.ok_or(io::ErrorKind::InvalidData.into())
    }
}

pub(super) const fn kind(message: i32) -> u16 {
    message_type(NFNL_SUBSYS_NFTABLES, message)
}

/// Job that begins with the message at this index; `None` unless all earlier jobs delete tables, with one message each.
fn job_at<'a>(jobs: &[BatchOperation<'a>], place: u32) -> Option<BatchOperation<'a>> {
    let (job, earlier) = jobs.get(..usize::try_from(place).ok()?)?.split_last()?;
    earlier.iter().all(|job| matches!(job, BatchOperation::Delete(..))).then_some(*job)
}

fn refusal(batch: &Batch, first: u32, jobs: &[BatchOperation<'_>], rejection: Rejection) -> Refusal {
    let Rejection { sequence, message, offset, source } = rejection;
    let place = sequence.wrapping_sub(first);
    // The generation is an old one, a table to delete is gone, or one to create already exists.
    let is_conflict = matches!(
        (source.raw_os_error(), job_at(jobs, place)),
        (Some(libc::ERESTART), _)
            | (Some(libc::ENOENT), Some(BatchOperation::Delete(..)))
            | (Some(libc::EEXIST), Some(BatchOperation::Create(_)))
    );
    match is_conflict {
        true => Refusal::Conflict(source),
        false => {
            let expression = offset.and_then(|offset| batch.expression(place, offset));
            let expression = expression.map(|name| format!("expression {name}"));
            let explanation: Vec<String> = expression.into_iter().chain(message).collect();
            let explanation = (!explanation.is_empty()).then(|| explanation.join(": "));
            Refusal::Refused { subject: batch.subject(place), explanation, source }
        }
    }
}
