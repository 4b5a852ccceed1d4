//! Random sequences on twins, a hundred in the nightly run: kubectl changes one, the program the other.

use super::workload::Api;
use super::{cluster, sequence};
use crate::support::sampling::{all_is_tried, times};

#[test]
fn random_sequences_end_as_they_do_with_kubectl() {
    let done = sequence::run_many(cluster(), Api::Apps, times(100), 6);
    let rarer = ["already there", "unknown revision", "restarted", "undone twice"];
    let hard = ["rolled back while rolling out", "rolled back past the same meaning"];
    let rarer = rarer.into_iter().chain(hard).filter(|_| all_is_tried());
    for what in rarer.chain(["rolled back"]) {
        assert!(done.contains_key(what), "nothing was {what}");
    }
}
