//! Sends plans to where snapshots come from.

use serde_json::Value;

use super::Source;
use super::error::ClusterError;
use crate::plan::Write;

/// How a change is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// It takes effect.
    ForReal,
    /// The server does all but keep it: admission, defaults and validation run, and nothing is changed.
    DryRun,
}

impl Source {
    /// Sends a change, once, and returns the object that the server made of it.
    ///
    /// # Errors
    ///
    /// Fails where the object is no longer the version that the change is locked on (a conflict, see
    /// [`ClusterError::is_conflict`]), where the server refuses it or cannot be reached, and for a dump.
    pub async fn write(&self, write: &Write, sending: Sending) -> Result<Value, ClusterError> {
        match self {
            #[cfg(feature = "live")]
            Source::Live(live) => live.write(write, sending).await,
            Source::File(dump) => {
                let _ = (write, sending);
                Err(dump.refuse_write())
            }
        }
    }
}
