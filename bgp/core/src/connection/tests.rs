//! Inbox and outbox: pieces of any size, and bounds.

use super::*;

fn keepalive() -> Vec<u8> {
    let mut out = BytesMut::new();
    encode::keepalive(&mut out);
    out.to_vec()
}

/// An UPDATE header of this length with nothing sensible behind it.
fn long(length: u16) -> Vec<u8> {
    let mut message = vec![0xFF; 16];
    message.extend(length.to_be_bytes());
    message.push(2);
    message.resize(usize::from(length), 0xAA);
    message
}

/// Everything that comes out, in pieces of `size`.
fn read(bytes: &[u8], size: usize, extended: bool) -> Result<Vec<Vec<u8>>, Reset> {
    let mut inbox = Inbox::default();
    let mut messages = Vec::new();
    for mut piece in bytes.chunks(size) {
        while let Some(whole) = inbox.next(&mut piece, extended)? {
            match whole {
                Whole::Passing(message) => messages.push(message.to_vec()),
                Whole::Kept => {
                    messages.push(inbox.kept().to_vec());
                    inbox.done();
                }
            }
        }
        assert!(piece.is_empty(), "all is taken");
    }
    Ok(messages)
}

#[test]
fn pieces_of_any_size_give_the_same_messages() {
    let messages = vec![keepalive(), long(23), long(4_096), keepalive(), keepalive(), long(57)];
    let stream = messages.concat();
    for size in [1, 2, 3, 18, 19, 20, 21, 100, 4_095, 4_096, 4_097, stream.len()] {
        assert_eq!(read(&stream, size, false).unwrap(), messages, "in pieces of {size}");
    }
}

#[test]
fn extended_messages_only_where_agreed() {
    let message = long(65_535);
    assert_eq!(read(&message, 1_000, true).unwrap(), vec![message.clone()]);
    let error = read(&message, 1_000, false).unwrap_err();
    assert_eq!((error.0.code, error.0.subcode), (1, 2));
}

#[test]
fn garbage_is_an_error_at_its_header_and_not_later() {
    let mut inbox = Inbox::default();
    let mut rest: &[u8] = &[0xFF; 10];
    assert_eq!(inbox.next(&mut rest, false).unwrap(), None);
    let garbage = [0; 9];
    let mut rest: &[u8] = &garbage;
    assert!(inbox.next(&mut rest, false).is_err());
}

#[test]
fn at_most_one_message_is_kept() {
    let mut inbox = Inbox::default();
    let stream = [long(4_096), long(4_096)].concat();
    let (head, tail) = stream.split_at(5_000);
    let (mut head, mut tail) = (head, tail);
    assert!(matches!(inbox.next(&mut head, false), Ok(Some(Whole::Passing(_)))));
    assert!(matches!(inbox.next(&mut head, false), Ok(None)));
    assert_eq!(inbox.partial.len(), 5_000 - 4_096);
    assert!(matches!(inbox.next(&mut tail, false), Ok(Some(Whole::Kept))));
    inbox.done();
    assert!(inbox.partial.is_empty() && inbox.partial.capacity() <= 2 * KEEP);
}

#[test]
fn a_long_message_leaves_no_memory_behind() {
    let mut inbox = Inbox::default();
    let message = long(65_535);
    let (mut head, mut tail) = message.split_at(30_000);
    assert_eq!(inbox.next(&mut head, true).unwrap(), None);
    assert_eq!(inbox.next(&mut tail, true).unwrap(), Some(Whole::Kept));
    inbox.done();
    assert!(inbox.partial.capacity() <= KEEP);
}

#[test]
fn keepalives_do_not_pile_up() {
    let mut outbox = Outbox::default();
    assert!(outbox.is_empty());
    for _ in 0..100 {
        outbox.keepalive();
        outbox.refresh(Family::Ipv6);
    }
    assert!(!outbox.is_empty());
    let mut out = BytesMut::new();
    assert_eq!(outbox.drain(&mut out), 2);
    assert_eq!(out.len(), 19 + 23);
    assert!(outbox.is_empty());
    assert_eq!(outbox.drain(&mut out), 0);
}

#[test]
fn the_notification_is_the_last_word_and_the_first_one_counts() {
    let mut outbox = Outbox::default();
    outbox.notification(Notification::new(6, 2));
    outbox.notification(Notification::new(4, 0));
    outbox.keepalive();
    let mut out = BytesMut::new();
    outbox.drain(&mut out);
    assert_eq!(&out[19 + 18..], [3, 6, 2], "type, code, subcode, behind the KEEPALIVE");
}
