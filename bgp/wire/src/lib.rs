//! BGP-4 messages as bytes, and bytes as messages: pure, total on any input, no IO.
//!
//! A place so far: the speaker comes with its own issue. What is fixed already is the direction:
//! this crate knows nobody, `flock-bgp` knows it, and the driver cannot see it.
