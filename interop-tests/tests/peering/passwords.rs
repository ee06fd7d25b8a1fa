//! Passwords from files: fail closed, and follow the file.

use std::fs;
use std::path::PathBuf;

use rack::fabric::Fabric;
use serde_json::json;

use super::scene::{
    Lasting, TORS, await_complete, await_log, await_peer, last_error, log, pair, peer_config,
};

const RIGHT: &str = "right-horse";
const OTHER: &str = "other-horse";

/// A node whose ToRs both ask for a password; it looks for each in a file of its own.
fn guarded() -> (Fabric, PathBuf) {
    let builder = pair().nodes(1).adjust(|_, config| {
        for peer in config.peers.iter_mut().filter(|peer| peer.asn != config.asn) {
            peer.password = Some(RIGHT.to_owned());
        }
    });
    let mut fabric = builder.build().unwrap();
    let folder = fabric.node(1).unwrap().file("passwords");
    for tor in TORS {
        peer_config(&mut fabric, 1, tor)["password"] = json!({ "file": folder.join(tor) });
    }
    fabric.configure(1).unwrap();
    (fabric, folder)
}

fn await_held_down(fabric: &Fabric, tor: &str, why: &str) {
    await_peer(fabric, 1, tor, why, |row| {
        row["state"] == "Idle" && last_error(row).contains(why) && last_error(row).contains(tor)
    });
}

#[test]
fn a_password_file_that_is_missing_emptied_wrong_or_changed() {
    let (mut fabric, folder) = guarded();
    fs::create_dir(&folder).unwrap();
    let [first, second] = TORS;
    fs::write(folder.join(first), RIGHT).unwrap();
    fabric.start().unwrap();
    await_complete(&fabric, 1, first);
    await_held_down(&fabric, second, "No such file");
    let stays = Lasting::new(&fabric, 1, first);

    // It appears, with the newline of an editor.
    fs::write(folder.join(second), format!("{RIGHT}\n")).unwrap();
    await_complete(&fabric, 1, second);
    fabric.await_sessions().unwrap();
    stays.check(&fabric);

    // Emptied: down at once, and down it stays; the other goes on.
    let stays = Lasting::new(&fabric, 1, second);
    fs::write(folder.join(first), "").unwrap();
    await_held_down(&fabric, first, "is empty");
    let address = fabric.session_addresses(1, first).unwrap()[0];
    let router = &fabric.tor(first).unwrap().router;
    router.await_state(address, |state| state != "Established").unwrap();
    // Gone altogether is no better.
    fs::remove_file(folder.join(first)).unwrap();
    await_held_down(&fabric, first, "No such file");
    fs::write(folder.join(first), RIGHT).unwrap();
    await_complete(&fabric, 1, first);
    stays.check(&fabric);

    // Changed on one side only: no session, and a guess at why.
    let stays = Lasting::new(&fabric, 1, first);
    fs::write(folder.join(second), OTHER).unwrap();
    await_peer(&fabric, 1, second, "down", |row| row["state"] != "Established");
    await_peer(&fabric, 1, second, "a guess", |row| last_error(row).contains("TCP-MD5"));
    // And on the other.
    let address = fabric.session_addresses(1, second).unwrap()[0];
    fabric.tor_mut(second).unwrap().router.set_password(address, Some(OTHER)).unwrap();
    await_complete(&fabric, 1, second);
    stays.check(&fabric);

    // On both sides, the other way round and with BIRD.
    let stays = Lasting::new(&fabric, 1, second);
    let address = fabric.session_addresses(1, first).unwrap()[0];
    fabric.tor_mut(first).unwrap().router.set_password(address, Some(OTHER)).unwrap();
    fs::write(folder.join(first), OTHER).unwrap();
    await_peer(&fabric, 1, first, "a session after that", |row| {
        row["state"] == "Established" && row["flaps"].as_u64() >= Some(2)
    });
    await_complete(&fabric, 1, first);
    stays.check(&fabric);
    let said = log(fabric.node(1).unwrap());
    assert!(!said.contains(RIGHT) && !said.contains(OTHER), "a password is in the log");
}

#[test]
fn a_folder_of_passwords_that_comes_later_or_is_swapped() {
    let (mut fabric, folder) = guarded();
    fabric.start().unwrap();
    TORS.iter().for_each(|tor| await_held_down(&fabric, tor, "No such file"));
    await_log(fabric.node(1).unwrap(), 0, &["cannot be watched", "passwords"]);
    fs::create_dir(&folder).unwrap();
    for tor in TORS {
        fs::write(folder.join(tor), RIGHT).unwrap();
    }
    TORS.iter().for_each(|tor| await_complete(&fabric, 1, tor));
    // Swapped for another one, as a mounted Secret may be.
    let sessions = TORS.map(|tor| Lasting::new(&fabric, 1, tor));
    let next = fabric.node(1).unwrap().file("next");
    fs::create_dir(&next).unwrap();
    for tor in TORS {
        fs::write(next.join(tor), RIGHT).unwrap();
    }
    fs::rename(&folder, fabric.node(1).unwrap().file("old")).unwrap();
    fs::rename(&next, &folder).unwrap();
    fs::write(folder.join(TORS[0]), "").unwrap();
    await_held_down(&fabric, TORS[0], "is empty");
    sessions[1].check(&fabric);
}
