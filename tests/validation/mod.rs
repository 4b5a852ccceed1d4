//! What the API server refuses of a DaemonSet, beside what the program refuses from a dump. tests/e2e/validation has the random
//! changes of which some are recorded.

mod recorded;
mod situations;
