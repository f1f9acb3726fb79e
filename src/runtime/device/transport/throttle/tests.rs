use super::road::Traffic;
use super::*;
use crate::cluster::{Cluster, NodeDefaults};
use crate::ids::NodeId;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

fn ms(time: u64) -> SimTime {
    SimTime(time * MS)
}

/// An interface of 1 MB/s to other nodes.
fn interface(node: u32, zone: &str) -> Interface {
    Interface {
        node,
        zone: zone.to_owned(),
        nic: Link { bytes_per_s: 1e6, latency_s: 1e-3 },
        port: Link { bytes_per_s: 1e7, latency_s: 0.0 },
        zone_latency_s: 0.5e-3,
    }
}

/// When a message ends, to a millisecond.
fn end(traffic: &mut Traffic, ticket: Ticket, from: u64) -> u64 {
    (from..10_000).find(|&time| traffic.has_ended(ms(time), ticket)).unwrap()
}

#[test]
fn a_message_takes_latency_and_bytes_over_bandwidth() {
    let (a, b) = (interface(0, "x"), interface(1, "x"));
    let mut traffic = Traffic::new(&a);
    let route = traffic.add_route(a.path(&b), false);
    let ticket = traffic.depart(ms(5), route, 20_000.0);
    // 1 + 1 ms, and 20 kB at 1 MB/s.
    assert!(!traffic.has_ended(ms(26), ticket));
    assert_eq!(end(&mut traffic, ticket, 26), 5 + 2 + 20);
    let within = traffic.add_route(a.path(&a), true);
    let ticket = traffic.depart(ms(100), within, 20_000.0);
    assert_eq!(end(&mut traffic, ticket, 100), 102);
}

#[test]
fn two_messages_share_their_interface_fairly() {
    let (a, b) = (interface(0, "x"), interface(1, "x"));
    let mut traffic = Traffic::new(&a);
    let routes = [traffic.add_route(a.path(&b), false), traffic.add_route(a.path(&b), false)];
    let long = traffic.depart(ms(0), routes[0], 30_000.0);
    let short = traffic.depart(ms(0), routes[1], 10_000.0);
    // Both at half the rate until the short one has gone, after 2 + 20 ms; then the rest of the long one alone.
    assert_eq!(end(&mut traffic, short, 0), 22);
    assert_eq!(end(&mut traffic, long, 22), 42);
    // The way within the node is another one.
    let within = traffic.add_route(a.path(&a), true);
    let outside = traffic.depart(ms(100), routes[0], 10_000.0);
    let inside = traffic.depart(ms(100), within, 100_000.0);
    assert_eq!(end(&mut traffic, inside, 100), 110);
    assert_eq!(end(&mut traffic, outside, 110), 112);
}

#[test]
fn what_comes_in_at_once_passes_one_after_the_other() {
    let mut traffic = Traffic::new(&interface(0, "x"));
    assert_eq!(traffic.arrive(ms(20), 20_000.0, false), ms(20));
    assert_eq!(traffic.arrive(ms(20), 20_000.0, false), ms(40));
    // Twenty milliseconds later the way has been free for long enough.
    assert_eq!(traffic.arrive(ms(60), 20_000.0, false), ms(60));
    assert_eq!(traffic.arrive(ms(60), 20_000.0, true), ms(60));
}

#[test]
fn paths_are_those_of_the_cluster() {
    let mut cluster = Cluster::parse_mix("2x2xT4+1x1xL4", &NodeDefaults::default()).unwrap();
    cluster.nodes[1].nic = Link { bytes_per_s: 1e8, latency_s: 1e-3 };
    cluster.nodes[2].zone = "elsewhere".to_owned();
    let interfaces: Vec<_> = (0..3).map(|node| Interface::of(&cluster.nodes[node as usize], node, 1.0)).collect();
    for (from, to) in [(0, 0), (0, 1), (1, 2), (2, 0)] {
        assert_eq!(interfaces[from].path(&interfaces[to]), cluster.path(NodeId::from(from), NodeId::from(to)));
    }
    let slow = Interface::of(&cluster.nodes[1], 1, 4.0);
    assert_eq!(slow.nic, Link { bytes_per_s: 2.5e7, latency_s: 4e-3 });
}

/// Two ends over real sockets.
fn throttled() -> (Box<dyn Transport>, Box<dyn Transport>, Links) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let into = listener.accept().unwrap().0;
    let transport = |stream| TcpTransport::new(stream, "peer", Duration::from_secs(20)).unwrap();
    let interfaces = [interface(0, "x"), interface(1, "x")];
    let links = |rank| Links::new(Rank(rank), &interfaces, Clock::start().0);
    let (first, second) = (links(0), links(1));
    let (a, b) = (first.wrap(transport(out), Rank(1)).unwrap(), second.wrap(transport(into), Rank(0)).unwrap());
    (a, b, first)
}

#[test]
fn messages_arrive_whole_counted_and_not_too_early() {
    let (mut a, mut b, links) = throttled();
    let clock = Instant::now();
    let message: Vec<u8> = (0..20_000_u32).map(|i| (i % 251) as u8).collect();
    for message in [&[], message.as_slice(), &[1, 2]] {
        a.send(message).unwrap();
    }
    assert!(clock.elapsed() < Duration::from_millis(20), "sending waits for nothing");
    assert!(b.receive().unwrap().is_empty());
    assert_eq!(b.receive().unwrap(), message);
    assert!(clock.elapsed() >= Duration::from_millis(22));
    assert_eq!(b.receive().unwrap(), [1, 2]);
    a.flush().unwrap();
    assert_eq!((links.take_sent_bytes(), links.take_sent_bytes()), (20_002, 0));
}

#[test]
fn a_gone_peer_is_an_error() {
    let (mut a, b, _links) = throttled();
    drop(b);
    let sent = (0..100).try_for_each(|_| a.send(&[1; 1000]).and_then(|()| a.flush()));
    assert!(sent.is_err());
    assert!(a.receive().is_err());
}
