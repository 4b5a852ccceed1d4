//! A child process together with its descendants.

use rustix::process::{Pid, Signal, kill_process_group};

/// A separate process group, which is killed if this is dropped before it ends, for example on a timeout.
pub(crate) struct ProcessGroup {
    leader: Pid,
    /// Whether the leader has ended, so that its process ID may be reused.
    pub(crate) has_ended: bool,
}

impl ProcessGroup {
    /// Takes over the process group of a program that was started as its leader.
    pub(crate) fn of(leader: &tokio::process::Child) -> Option<Self> {
        let leader = Pid::from_raw(i32::try_from(leader.id()?).ok()?)?;
        Some(ProcessGroup { leader, has_ended: false })
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.has_ended {
            // This fails only if they have ended.
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
    }
}
