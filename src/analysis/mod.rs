//! Snapshot in, report out: what the commands answer is worked out here, purely.
