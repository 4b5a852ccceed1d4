//! End-to-end tests against a real control plane.

mod agreement;
mod apply;
mod changes;
mod clusters;
mod completion;
mod control_plane;
mod json_path;
mod logs;
mod losing_nodes;
mod new_nodes;
mod preemption;
mod random_rollouts;
mod recordings;
mod refused_pods;
mod revisions;
mod rollouts;
mod side_by_side;
mod stopped_parts;
mod what_if;
mod yaml;
