//! The marks by which transparent connections keep their way.

use super::defaults::PROXY_MARK;
use super::reason::Reason;
use super::words::{
    INBOUND, OUTPUT, PREROUTING, connmark, from, from_loopback, mark, not_mark, not_to, tcp, to_loopback,
};
use super::writer::Writer;
use rules::{Mark, Table, Target};

/// These rules follow all others in TPROXY mode, with or without inbound ports.
pub(super) fn write(writer: &mut Writer<'_>, inbound_mark: Mark) {
    let (loopback, passthrough) = (writer.loopback(), writer.passthrough());
    let cause = Reason::TproxyMark.cause();
    let marked = || [tcp(), mark(inbound_mark)];
    // Answers to a transparent connection must be routed as its packets were: the connection remembers.
    writer.append(Table::Mangle, PREROUTING, marked(), Target::SaveMark, cause);
    // The proxy answers itself over loopback with the mark still on; it is not captured again.
    let to_self = [tcp(), to_loopback(), mark(inbound_mark)];
    writer.append(Table::Mangle, OUTPUT, to_self, Target::Return, cause);
    for owner in writer.owners() {
        let cause = Reason::ProxyCallsOwnPod.cause().by(owner.setting());
        let own_pod = [not_to(loopback), tcp(), to_loopback(), owner.is()];
        writer.append(Table::Mangle, OUTPUT, own_pod, Target::SetMark(PROXY_MARK), cause);
    }
    let answer = [tcp(), connmark(inbound_mark)];
    writer.append(Table::Mangle, OUTPUT, answer, Target::RestoreMark, cause);
    writer.insert(Table::Mangle, INBOUND, 1, marked(), Target::Return, cause);
    let cause = Reason::ProxyToApplication.cause();
    let handed_on = [tcp(), from(passthrough), from_loopback()];
    writer.insert(Table::Mangle, INBOUND, 2, handed_on, Target::Return, cause);
    let cause = Reason::ApplicationLoopback.cause();
    let from_application = [tcp(), from_loopback(), not_mark(PROXY_MARK)];
    writer.insert(Table::Mangle, INBOUND, 3, from_application, Target::Return, cause);
}
