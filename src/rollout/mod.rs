//! How DaemonSets change: a snapshot in, a history or a plan out.
//!
//! [`situation`] tells where a DaemonSet stands, from which all others start. [`status`] reports it, and [`fleet`] has a row
//! for each DaemonSet, and [`compare`] two of these; [`history`] lists revisions, and [`recent_changes`] what has
//! changed in DaemonSets, nodes and what limits pods; [`undo`], [`restart`],
//! [`set`] and [`pause`](mod@pause) plan a change, which a [`proposal`] applies, with its [`effect`], a [`forecast`] of where it
//! comes to a standstill, and what else may go wrong ([`change_warnings`]), `apply` carries it out and decides about conflicts ([`concurrent_edit`]), and `observed` tells when
//! the controller has acted.
//! [`partition`] stages a rollout node by node.

#[cfg(feature = "live")]
pub(crate) mod apply;
pub(crate) mod change_warnings;
pub mod compare;
#[cfg(feature = "live")]
pub(crate) mod concurrent_edit;
pub(crate) mod effect;
#[cfg(feature = "live")]
pub(crate) mod events;
pub mod fleet;
pub(crate) mod forecast;
#[cfg(feature = "live")]
pub(crate) mod harm;
pub mod history;
mod known_rollouts;
pub(crate) mod new_pods;
#[cfg(feature = "live")]
pub(crate) mod new_trouble;
pub(crate) mod observed;
mod pace_warnings;
pub(crate) mod partition;
pub(crate) mod pause;
pub mod proposal;
mod quota_warnings;
pub mod recent_changes;
pub(crate) mod replacement_warnings;
pub(crate) mod restart;
pub(crate) mod retry;
pub mod rollback;
pub mod set;
pub mod situation;
#[cfg(feature = "live")]
pub(crate) mod standstill;
pub mod status;
pub mod undo;
