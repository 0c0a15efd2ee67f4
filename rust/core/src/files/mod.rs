//! Files of a home: who they belong to, locks on them, what a fork does to them, how one is published.

pub(crate) mod fork;
mod lock;
pub(crate) mod owner;
mod publish;

pub use fork::fork_generation;
pub(crate) use lock::LockFile;
pub(crate) use publish::{make_dir, publish, sync_dir};
