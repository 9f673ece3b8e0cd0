//! Worker processes.

/// A worker process failed.
#[derive(Debug, thiserror::Error)]
#[error("worker")]
pub struct WorkerError {}
