//! The tests on a real control plane, and those that call the real functions; both need Go.

mod agreement;
mod api;
mod apply;
mod changes;
mod clusters;
mod compare;
mod completion;
mod control_plane;
mod crowded;
mod differential;
mod logs;
mod losing_nodes;
mod new_nodes;
mod preemption;
mod preview;
mod random_rollouts;
mod refused_pods;
mod revisions;
mod rollouts;
mod side_by_side;
mod stopped_parts;
mod support;
mod tools;
mod validation;
mod yaml;
