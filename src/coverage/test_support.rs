//! Coverage of small test clusters.

use super::options::{Detail, Options};
use super::walk::coverage;
pub use crate::facts::test_support::*;
use crate::report::coverage::DaemonSetCoverage;
use crate::report::node_coverage::NodeCoverage;

impl World {
    /// Returns the coverage of the DaemonSet, every node explained.
    pub fn coverage(self) -> DaemonSetCoverage {
        let options = Options { detail: Detail::Explain, ..Options::default() };
        coverage(&self.finish(), &options).daemon_sets.remove(0)
    }

    /// Returns the only node of the world in the DaemonSet's coverage.
    pub fn only_node(self) -> NodeCoverage {
        let mut coverage = self.coverage();
        assert_eq!(coverage.nodes.len(), 1);
        coverage.nodes.remove(0)
    }
}
