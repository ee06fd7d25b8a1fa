//! The BGP speaker as a pure machine: bytes, time and wishes in; bytes, deadlines and notices out.
//! No clock, no socket, no randomness, no log.
//!
//! A place so far: the speaker comes with its own issue. It will depend on `flock-bgp-wire` and on
//! nothing that does IO.
