//! The rules of the DaemonSet controller and the scheduler, as pure functions.
