//! The driver with real sockets on loopback: speakers among themselves, and partners made of bytes
//! that behave as nobody should. Other routers are in `interop-tests`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![forbid(unsafe_code)]

mod drain;
mod farewell;
mod hostile;
mod partner;
mod sessions;
mod speakers;
mod strangers;
