//! Why nodes have no available pod: a snapshot in, a coverage report out.
//!
//! [`walk`] visits DaemonSets and nodes. It looks the snapshot up through an [`index`], asks [`verdict`] about every
//! node that is not plainly fine, and puts findings with the same cause into one [`group`].

#[cfg(test)]
mod cases;
pub mod gaps;
pub mod group;
pub mod index;
pub mod list;
pub mod node_class;
pub mod status_counters;
pub mod tally;
#[cfg(test)]
pub(crate) mod test_support;
pub mod verdict;
pub mod walk;
pub mod what_if;
