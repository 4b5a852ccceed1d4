//! Slim forms of Kubernetes objects, with only the fields that are used.
//!
//! A body arrives as protobuf or JSON ([`wire`]), becomes nodes, pods, events and DaemonSets ([`node`], [`pod`], [`event`],
//! [`daemon_set`]), and is collected in a [`snapshot::Snapshot`], the only input of the rules and the analyses.

#[macro_use]
pub(crate) mod wire;
pub(crate) mod amounts;
pub mod config_object;
pub mod controller_revision;
pub mod daemon_set;
pub mod daemon_set_edit;
pub mod device_claim;
pub mod event;
pub mod held_pod;
pub(crate) mod hold;
pub(crate) mod image;
pub mod int_or_percent;
pub mod kind;
pub mod metadata;
pub(crate) mod mounted_paths;
pub mod names;
pub mod node;
pub mod node_edit;
pub mod pod;
mod pod_defaults;
pub mod pod_disruption_budget;
pub mod quantity;
pub(crate) mod raised_pace;
pub(crate) mod redacted;
pub mod resource_quota;
pub mod selector;
pub mod server_side_apply;
pub mod shared;
pub mod snapshot;
pub mod stages;
pub mod startup_taint;
pub mod storage;
pub mod strategic_merge;
pub mod template;
mod template_defaults;
pub mod template_keys;
pub mod template_parts;
pub mod template_types;
pub mod time;
pub mod update_strategy;
pub mod written;
