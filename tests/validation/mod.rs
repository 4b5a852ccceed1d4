//! What the API server rejects in a DaemonSet, next to what the program rejects from a dump. tests/e2e/validation makes
//! the random changes, some of which are recorded here.

mod recorded;
mod situations;
