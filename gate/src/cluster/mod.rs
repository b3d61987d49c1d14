//! Many gates, one limit: counters and the state pipeline between gates that share rooms.
//!
//! `ledger` says who holds which slots and is the same in the simulator and in Redis; `member` is one gate's side of it;
//! `redis` carries both. The room core decides; nothing here admits anybody.

mod gateway;
mod health;
pub mod ledger;
pub mod member;
pub mod redis;
pub mod settings;
mod wire;

pub use gateway::{Cluster, ClusterError, RoomToShare, Visit};
pub use health::{CounterHealth, CounterScope, Reach, RoomHealth};
