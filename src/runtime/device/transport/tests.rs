use super::super::Secret;
use super::*;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::thread;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (stream, listener.accept().unwrap().0)
}

fn transports() -> (TcpTransport, TcpTransport) {
    let (a, b) = pair();
    let silence = Duration::from_secs(20);
    (TcpTransport::new(a, "a", silence).unwrap(), TcpTransport::new(b, "b", silence).unwrap())
}

fn accept_now(listener: &TcpListener, secret: &Secret) -> Result<(TcpTransport, Vec<u8>), TransportError> {
    accept(listener.accept().unwrap().0, secret)
}

#[test]
fn messages_arrive_whole_and_in_order() {
    let (mut a, mut b) = transports();
    let long: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let expected = long.clone();
    let sender = thread::spawn(move || {
        for message in [b"".as_slice(), b"one", &long, b"last"] {
            a.send(message).unwrap();
        }
    });
    let received: Vec<Vec<u8>> = (0..4).map(|_| b.receive().unwrap()).collect();
    sender.join().unwrap();
    assert_eq!(received, [Vec::new(), b"one".to_vec(), expected, b"last".to_vec()]);
}

#[test]
fn a_message_is_framed_by_length_and_crc32() {
    // CRC-32 of `123456789`, the check value that its catalogue entry gives: cbf43926.
    let mut bytes = Vec::new();
    frame::write(&mut bytes, b"123456789", "x").unwrap();
    assert_eq!(bytes[..8], [9, 0, 0, 0, 0x26, 0x39, 0xf4, 0xcb]);
    assert_eq!(bytes[8..], *b"123456789");
}

#[test]
fn a_changed_byte_is_noticed() {
    let (mut a, b) = pair();
    let mut bytes = Vec::new();
    frame::write(&mut bytes, b"gradient", "x").unwrap();
    bytes[10] ^= 1;
    a.write_all(&bytes).unwrap();
    let mut b = TcpTransport::new(b, "a", Duration::from_secs(20)).unwrap();
    assert!(matches!(b.receive(), Err(TransportError::Checksum { length: 8, .. })));
}

#[test]
fn a_length_beyond_all_reason_allocates_nothing() {
    let bytes = [0xff; 8];
    assert!(matches!(
        frame::read(&mut bytes.as_slice(), 100, "x"),
        Err(TransportError::TooLong { length: 0xffff_ffff, limit: 100, .. })
    ));
}

#[test]
fn who_knows_the_secret_is_let_in_and_nobody_else() {
    let (listener, address) = listen(LOOPBACK).unwrap();
    let secret = Secret::random().unwrap();
    let _in = connect(address, &secret, b"hello", "x").unwrap();
    let (_, greeting) = accept_now(&listener, &secret).unwrap();
    assert_eq!(greeting, b"hello");
    let _out = connect(address, &Secret::random().unwrap(), b"hello", "x").unwrap();
    assert!(matches!(accept_now(&listener, &secret), Err(TransportError::Refused { .. })));
    let mut short = TcpStream::connect(address).unwrap();
    frame::write(&mut short, b"hello", "x").unwrap();
    assert!(matches!(accept_now(&listener, &secret), Err(TransportError::Refused { .. })));
}

#[test]
fn a_dead_peer_is_an_error_at_once() {
    let (a, mut b) = transports();
    let receiver = thread::spawn(move || b.receive());
    drop(a);
    assert!(matches!(receiver.join().unwrap(), Err(TransportError::Closed { .. })));
}

#[test]
fn a_silent_peer_is_an_error_in_time() {
    let (_a, b) = pair();
    let mut b = TcpTransport::new(b, "a", Duration::from_millis(20)).unwrap();
    assert!(matches!(b.receive(), Err(TransportError::TimedOut { .. })));
}
