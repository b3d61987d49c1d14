//! The operator's view: `GET /status` as JSON, `GET /metrics` as Prometheus text, `GET /preview` of waiting pages,
//! `GET /health`. On an address of its own, off the
//! request path. Reads, never changes.

mod kernel_metrics;
mod metrics;
mod preview;
mod server;
mod status;

pub use metrics::{METRICS, Metric, text as metrics_text};
pub use server::{AdminServer, View};
pub use status::{ClusterReport, ProxyCounts, Report, RoomReport, json as status_json};
