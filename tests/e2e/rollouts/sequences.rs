//! A hundred random sequences on twins: kubectl acts on one, the program on the other.

use super::workload::Api;
use super::{cluster, sequence};

#[test]
fn random_sequences_end_as_they_do_with_kubectl() {
    let done = sequence::run_many(cluster(), Api::Apps, 100, 6);
    let needed = ["rolled back", "already there", "unknown revision", "restarted", "undone twice"];
    let hard = ["rolled back while rolling out", "rolled back past the same meaning"];
    for what in needed.into_iter().chain(hard) {
        assert!(done.contains_key(what), "nothing was {what}");
    }
}
