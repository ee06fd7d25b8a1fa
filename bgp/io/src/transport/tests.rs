//! What the kernel says that was set, and what it then does, on loopback. Whether a segment was
//! dropped is asked of the kernel's counters, since silence proves nothing.

use std::fs;
use std::net::TcpStream as StdStream;
use std::sync::Arc;

use flock_bgp::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

fn plain(hops: u8) -> Transport {
    Transport { md5: None, ttl: Ttl::Hops(hops) }
}

fn keyed(key: &[u8]) -> Transport {
    Transport { md5: Some(Secret(Arc::from(key))), ttl: Ttl::Hops(1) }
}

const SECURITY: Transport = Transport { md5: None, ttl: Ttl::Security };

fn counter(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let names = lines.next().unwrap().split_whitespace();
    let values = lines.next().unwrap().split_whitespace();
    names.zip(values).find(|(found, _)| *found == name).unwrap().1.parse().unwrap()
}

async fn grows(name: &str, before: u64) {
    tokio::time::timeout(Duration::from_secs(20), async {
        while counter(name) == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{name} does not grow"));
}

#[tokio::test]
async fn options_of_a_dial_over_ipv4() {
    let remote = "127.0.0.1:179".parse().unwrap();
    let socket = dialler(remote, Some("127.0.0.9".parse().unwrap()), &plain(7)).unwrap();
    assert_eq!(safe::ip_ttl(&socket).unwrap(), 7);
    assert_eq!(safe::ip_tos(&socket).unwrap(), 0xC0);
    assert!(safe::tcp_nodelay(&socket).unwrap());
    assert_eq!(socket.local_addr().unwrap().ip(), "127.0.0.9".parse::<IpAddr>().unwrap());
    let socket = dialler(remote, None, &SECURITY).unwrap();
    assert_eq!(safe::ip_ttl(&socket).unwrap(), 255);
}

#[tokio::test]
async fn options_of_a_dial_over_ipv6() {
    let remote = "[::1]:179".parse().unwrap();
    let socket = dialler(remote, None, &plain(3)).unwrap();
    assert_eq!(safe::ipv6_unicast_hops(&socket).unwrap(), 3);
    assert_eq!(safe::ipv6_tclass(&socket).unwrap(), 0xC0);
    let socket = dialler(remote, None, &SECURITY).unwrap();
    assert_eq!(safe::ipv6_unicast_hops(&socket).unwrap(), 255);
}

#[tokio::test]
async fn a_listener_over_ipv6_leaves_ipv4_alone() {
    let six = listen("[::]:0".parse().unwrap()).unwrap();
    assert!(safe::ipv6_v6only(&six).unwrap());
    let port = six.local_addr().unwrap().port();
    assert!(StdStream::connect(("127.0.0.1", port)).is_err());
    assert!(StdStream::connect(("::1", port)).is_ok());
}

#[tokio::test]
async fn accepted_connections_are_dressed() {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let _client = StdStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, remote) = listener.accept().await.unwrap();
    accepted(&stream, remote.ip(), &plain(1)).unwrap();
    assert_eq!(safe::ip_ttl(&stream).unwrap(), 1);
    assert_eq!(safe::ip_tos(&stream).unwrap(), 0xC0);
    assert!(safe::tcp_nodelay(&stream).unwrap());
}

/// Connects with `ours` to a listener that has `theirs` for us.
async fn meet(address: &str, ours: &Transport, theirs: Option<&[u8]>) -> io::Result<TcpStream> {
    let listener = listen(address.parse().unwrap()).unwrap();
    let remote = listener.local_addr().unwrap();
    sockopt::set_md5(&listener, remote.ip(), theirs).unwrap();
    dialler(remote, None, ours)?.connect(remote).await
}

#[tokio::test]
async fn the_same_password_connects() {
    meet("127.0.0.1:0", &keyed(b"secret"), Some(b"secret")).await.unwrap();
    meet("[::1]:0", &keyed(b"secret"), Some(b"secret")).await.unwrap();
    meet("127.0.0.1:0", &keyed(&[7; 80]), Some(&[7; 80])).await.unwrap();
}

#[tokio::test]
async fn a_password_that_differs_does_not_and_is_counted() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        for (ours, theirs, name) in [
            (keyed(b"secret"), Some(&b"Secret"[..]), "TCPMD5Failure"),
            (keyed(b"secret"), None, "TCPMD5Unexpected"),
            (plain(1), Some(&b"secret"[..]), "TCPMD5NotFound"),
        ] {
            let before = counter(name);
            tokio::select! {
                outcome = meet(address, &ours, theirs) => panic!("{name}: {outcome:?}"),
                () = grows(name, before) => {}
            }
        }
    }
}

#[tokio::test]
async fn a_password_can_be_taken_back() {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    sockopt::set_md5(&listener, address.ip(), Some(b"secret")).unwrap();
    sockopt::set_md5(&listener, address.ip(), None).unwrap();
    sockopt::set_md5(&listener, address.ip(), None).unwrap();
    assert!(StdStream::connect(address).is_ok());
}

#[tokio::test]
async fn a_password_that_is_too_long_is_refused() {
    let remote = "127.0.0.1:179".parse().unwrap();
    let error = dialler(remote, None, &keyed(&[7; 81])).unwrap_err();
    assert!(error.to_string().contains("at most 80 bytes, not 81"), "{error}");
}

/// RFC 5082: our listener's answer is good enough for a dial with TTL security.
#[tokio::test]
async fn security_on_both_sides_connects() {
    meet("127.0.0.1:0", &SECURITY, None).await.unwrap();
    meet("[::1]:0", &SECURITY, None).await.unwrap();
}

/// RFC 5082: what comes from further away than it should is not heard until it comes from nearby.
#[tokio::test]
async fn security_drops_what_comes_from_afar() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = listen(address.parse().unwrap()).unwrap();
        let remote = listener.local_addr().unwrap();
        let mut client = dialler(remote, None, &plain(64)).unwrap().connect(remote).await.unwrap();
        let (mut stream, from) = listener.accept().await.unwrap();
        accepted(&stream, from.ip(), &SECURITY).unwrap();
        let before = counter("TCPMinTTLDrop");
        client.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        tokio::select! {
            outcome = stream.read_exact(&mut heard) => panic!("{outcome:?}"),
            () = grows("TCPMinTTLDrop", before) => {}
        }
        distance(&client, remote.ip(), Ttl::Hops(255)).unwrap();
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
    }
}

/// It was in the listener's queue when the listener had no key.
#[tokio::test]
async fn a_connection_older_than_the_key_must_sign_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut unsigned = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, remote) = listener.accept().await.unwrap();
    accepted(&stream, remote.ip(), &keyed(b"secret")).unwrap();
    let before = counter("TCPMD5NotFound");
    unsigned.write_all(b"unsigned").await.unwrap();
    grows("TCPMD5NotFound", before).await;
    let read = stream.try_read(&mut [0; 16]);
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn the_kernel_is_asked_whether_it_signs() {
    crate::knows_md5().unwrap();
}
