//! The demo works as it stands: every act, to the end, with nothing left behind. What it shows is
//! proven in detail elsewhere; this keeps the show itself from rotting.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::process::Command;

#[test]
fn it_plays_to_the_end() {
    let output = Command::new(env!("CARGO_BIN_EXE_demo")).arg("--no-pause").output().unwrap();
    let (said, more) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{more}", output.status);
    assert!(!said.contains('\x1b'), "colours only on a terminal");
    for act in
        ["are attached", "everybody", "withdrawn", "is killed", "is drained", "nothing is left"]
    {
        assert!(said.contains(act), "it says nothing of {act:?}:\n{said}");
    }
}

#[test]
fn a_flag_that_is_none_is_refused_before_anything_is_built() {
    let output = Command::new(env!("CARGO_BIN_EXE_demo")).arg("--no-such-flag").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
