//! The state file: which attachment has which addresses, durable before anybody is told. Decides
//! the file's shape, what is refused when it is read, and how changes become durable; leaves what
//! an entry means to `pods` and the addresses to `ipam`.
//!
//! The file is always whole and current: a change is another file beside it, synced, renamed over
//! it, and the directory synced. That other file is a new one while the state is small, and later the
//! one that was current before, brought forward (`disk`): a change then costs the same whatever the
//! number of pods. One thread writes. Whatever arrives while it writes shares the
//! next write (group commit), so fifty pods at once are a few writes and not fifty, and nobody
//! waits for more than the write under way and one of its own.
//!
//! ```text
//! put / remove --bounded channel--> writer thread --one write per group--> Durable resolves
//! ```
//! When the channel is full, the change is refused at once ([`StoreError::Busy`]): it never
//! blocks a task, and its capacity is far above the number of CNI calls under way.

mod allocation;
mod decode;
mod disk;
mod error;
mod handle;
mod keepsake;
mod pages;
mod readers;
mod writer;

pub use allocation::{Allocation, Key, State};
pub use disk::{Gate, Step};
pub use error::StoreError;
pub use handle::{Counters, Durable, Store};
pub use keepsake::Keepsake;
