//! Snapshot in, report out: what the commands answer is worked out here, purely.
//!
//! [`coverage`] walks over DaemonSets and nodes. A snapshot is looked up through its [`index`], a DaemonSet
//! through its [`subject`]; a node that is not plainly fine gets a [`verdict`], which asks the rules of
//! its state: [`eligibility`], [`missing`] (and [`create_failure`]), [`pending`] (with [`fit`] and
//! [`scheduler_words`]), [`bound`] (and [`containers`]), [`leaving`]. What a rule finds is a [`finding`],
//! whose [`sentence`]s merge into groups ([`group`]).
//!
//! How two pod templates differ is found by [`difference`], and said in [`few_words`].

pub mod admission;
pub(crate) use crate::report::age;
pub mod bound;
#[cfg(test)]
mod cases;
pub mod checks;
pub mod concerns;
pub mod containers;
pub mod coverage;
pub mod create_failure;
pub mod difference;
pub mod eligibility;
pub mod explain;
pub mod few_words;
pub mod finding;
pub mod fit;
pub mod gaps;
pub mod group;
pub mod history;
pub mod index;
pub mod leaving;
pub mod list;
pub mod meanwhile;
pub mod missing;
pub mod near_miss;
pub mod path;
pub mod pending;
pub mod pod_story;
pub mod restart;
pub mod reverters;
pub mod revisions;
pub mod scheduler_words;
pub mod sentence;
mod sequence;
pub mod signature;
pub mod status;
pub mod subject;
pub mod tally;
#[cfg(test)]
mod test_support;
pub mod undo;
pub mod verdict;
pub mod what_if;
pub mod workload;
