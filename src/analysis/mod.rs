//! Snapshot in, report out: what the commands answer is worked out here, purely.
//!
//! [`coverage`] walks over DaemonSets and nodes. A snapshot is looked up through its [`index`]; a node that is not
//! plainly fine gets a [`verdict`], and what many nodes have in common is a [`group`].
//!
//! [`history`] walks over [`revisions`]; [`undo`] and [`restart`] plan a change and say what stands against it
//! ([`reverters`]). How two pod templates differ is found, and put in few words, by [`difference`](mod@difference).

#[cfg(test)]
mod cases;
pub mod coverage;
pub mod difference;
pub mod gaps;
pub mod group;
pub mod history;
pub mod index;
pub mod list;
pub mod meanwhile;
pub mod restart;
pub mod reverters;
pub mod revisions;
pub mod signature;
pub mod status;
pub mod tally;
#[cfg(test)]
mod test_support;
pub mod undo;
pub mod verdict;
pub mod what_if;
