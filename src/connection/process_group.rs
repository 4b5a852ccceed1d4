//! A child process together with its descendants.

use rustix::process::{Pid, Signal, kill_process_group};

/// A process group of its own, which ends when this is dropped too early, as by a time limit.
pub(crate) struct ProcessGroup {
    leader: Pid,
    /// Whether the leader has ended, so that its number may be another's.
    pub(crate) has_ended: bool,
}

impl ProcessGroup {
    /// Takes over the group of a program that was started as the leader of one.
    pub(crate) fn of(leader: &tokio::process::Child) -> Option<Self> {
        let leader = Pid::from_raw(i32::try_from(leader.id()?).ok()?)?;
        Some(ProcessGroup { leader, has_ended: false })
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.has_ended {
            // It fails only if they have ended.
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
    }
}
