//! Why nodes have no available pod: from a snapshot to a coverage report.
//!
//! [`walk`] visits the nodes of a DaemonSet's [facts](crate::facts), asks [`verdict`] about every node that is not
//! plainly healthy, and collects findings with the same cause in one [`group`].

#[cfg(test)]
mod cases;
pub(crate) mod common_cause;
pub(crate) mod filter;
mod fisher;
pub(crate) mod gaps;
pub(crate) mod group;
pub(crate) mod incidents;
pub(crate) mod log_fold;
mod lost_pods;
pub(crate) mod needs;
mod node_class;
mod node_map;
pub mod options;
pub(crate) mod overhead;
pub(crate) mod pending_preemption;
pub(crate) mod preview;
pub(crate) mod proposed_daemon_set;
mod removed_nodes;
pub mod stale_config;
mod startup_taints;
mod tally;
#[cfg(test)]
pub(crate) mod test_support;
mod verdict;
pub mod walk;

pub(crate) use verdict::admission::admitted;
pub(crate) use verdict::admission::service_account;
pub(crate) use verdict::containers::{keeps_ending, restarts_often, telling_log};
pub(crate) use verdict::create_events::{
    creation_refusal, is_refused_like_controller, is_refused_within_quota, newest_refusal, refusal_reason,
};
pub(crate) use verdict::create_failure::have_same_cause;
pub(crate) use verdict::finding::{Diagnosis, Lack, Origin, Step, TemplatePart, delete_pod};
pub(crate) use verdict::fit::{excess, fits_after, fits_now};
pub(crate) use verdict::former_pods::failed_again_since;
pub(crate) use verdict::images::{is_image_pull_failure, registry};
pub(crate) use verdict::limit_range::{allows, refused_namespaces};
pub(crate) use verdict::node_health::lacks_only_network;
pub(crate) use verdict::node_plugin::NodePlugin;
pub(crate) use verdict::quota::{exceeds_quota, has_room_for, is_above_quota};
pub(crate) use verdict::terminating::{CLEANUP, COLLECTION};
pub(crate) use verdict::unscheduled_pod::SCHEDULED;
pub(crate) use verdict::{PROGRESS_DEADLINE, failed_end};
