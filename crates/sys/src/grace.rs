//! Waiting until the kernel is done with packets that met the rules of before.

use nix::{errno::Errno, libc};
use std::{thread, time::Duration};

/// Where the kernel can't wait for us: far longer than a packet takes.
const INSTEAD: Duration = Duration::from_millis(20);

/// Returns once no packet is between two hooks any more that passed the first of them before the call.
///
/// The kernel takes a packet from one hook to the next within a read-side critical section of RCU
/// (`__netif_receive_skb` and `process_backlog` in `net/core/dev.c`), and `MEMBARRIER_CMD_GLOBAL` waits for all of those
/// (`membarrier(2)`, `synchronize_rcu` in `kernel/sched/membarrier.c`): some 10 to 30 ms.
#[expect(unsafe_code, reason = "nix has no membarrier")]
pub fn wait() {
    // SAFETY: the call takes three numbers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    // Kernels without it, and those with processors that no timer interrupts, refuse; so may a filter of system calls.
    if Errno::result(result).is_err() {
        thread::sleep(INSTEAD);
    }
}
