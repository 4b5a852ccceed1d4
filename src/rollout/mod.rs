//! How DaemonSets change: from a snapshot to a history or a plan.
//!
//! [`situation`] is the state of a DaemonSet, on which all others are based. [`status`] reports it, [`fleet`] has a row for each
//! DaemonSet, and [`compare`] compares two of these; [`history`] lists revisions, and [`recent_changes`] lists changes to
//! DaemonSets, nodes and whatever limits pods. [`undo`], [`restart`], [`set`] and [`pause`](mod@pause) plan a change. A
//! [`proposal`] derives the resulting DaemonSet, its [`effect`], a [`forecast`] of where the rollout stalls, and what else may go
//! wrong ([`change_warnings`]); `apply` applies it and handles conflicts ([`concurrent_edit`]), and `observed`
//! tells when the controller has acted. [`partition`] stages a rollout node by node.

pub(crate) mod apply;
pub(crate) mod change_warnings;
pub mod compare;
pub(crate) mod concurrent_edit;
pub(crate) mod effect;
pub(crate) mod events;
pub mod fleet;
pub(crate) mod forecast;
pub mod history;
mod known_rollouts;
pub(crate) mod new_pods;
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
pub(crate) mod risks;
pub mod rollback;
pub(crate) mod room;
pub mod set;
pub mod situation;
pub(crate) mod standstill;
pub mod status;
pub mod undo;

/// After how many updated pods a rollout has a pace.
const PACE: usize = 3;
