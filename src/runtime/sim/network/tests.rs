//! Rates worked out by hand.

use super::*;

fn network(bandwidths: &[f64], routes: &[&[(LinkIndex, f64)]]) -> Network<u32> {
    let mut network = Network::new();
    for &bandwidth in bandwidths {
        network.add_link(bandwidth);
    }
    for links in routes {
        network.add_route(Route { links: links.to_vec(), latency: SimTime::ZERO });
    }
    network
}

fn ends(mut network: Network<u32>) -> Vec<(u32, f64)> {
    std::iter::from_fn(|| network.next_end()).map(|(time, tag)| (tag, time.as_seconds())).collect()
}

#[test]
fn one_transfer_takes_latency_and_bytes_over_bandwidth() {
    let mut network = Network::new();
    let link = network.add_link(100.0);
    let route = network.add_route(Route { links: vec![(link, 1.0)], latency: SimTime::from_seconds(0.5) });
    network.start(SimTime::ZERO, route, 200.0, 7);
    assert_eq!(ends(network), [(7, 2.5)]);
}

#[test]
fn two_transfers_halve_a_link_and_the_longer_gets_the_rest() {
    let mut network = network(&[100.0], &[&[(0, 1.0)]]);
    network.start(SimTime::ZERO, 0, 100.0, 1);
    network.start(SimTime::ZERO, 0, 200.0, 2);
    // Both at 50 until 2 s, when 100 bytes of the second are left for the whole link.
    assert_eq!(ends(network), [(1, 2.0), (2, 3.0)]);
}

#[test]
fn a_transfer_limited_elsewhere_leaves_its_share_to_others() {
    // The first is held to 20 by link 1, so the second gets 80 on link 0, not 50.
    let mut network = network(&[100.0, 20.0], &[&[(0, 1.0), (1, 1.0)], &[(0, 1.0)]]);
    network.start(SimTime::ZERO, 0, 20.0, 1);
    network.start(SimTime::ZERO, 1, 80.0, 2);
    assert_eq!(ends(network), [(1, 1.0), (2, 1.0)]);
}

#[test]
fn a_route_that_crosses_a_link_twice_uses_it_twice() {
    let mut network = network(&[100.0], &[&[(0, 2.0)], &[(0, 1.0)]]);
    network.start(SimTime::ZERO, 0, 100.0, 1);
    assert_eq!(ends(network.clone()), [(1, 2.0)]);
    network.start(SimTime::ZERO, 1, 100.0, 2);
    // A third of the link each per crossing: 33.3 a second for both.
    let ends = ends(network);
    assert!((ends[0].1 - 3.0).abs() < 1e-8 && (ends[1].1 - 3.0).abs() < 1e-8, "{ends:?}");
}

#[test]
fn a_late_comer_slows_the_first_from_its_arrival_on() {
    let mut network = network(&[100.0], &[&[(0, 1.0)]]);
    network.start(SimTime::ZERO, 0, 150.0, 1);
    network.start(SimTime::SECOND, 0, 100.0, 2);
    // 100 bytes are through after 1 s; 50 left at half speed: 2 s. The second then has 50 left: 2.5 s.
    assert_eq!(ends(network), [(1, 2.0), (2, 2.5)]);
}

#[test]
fn an_infinite_link_takes_no_time() {
    let mut network = network(&[f64::INFINITY, f64::INFINITY], &[&[(0, 1.0), (1, 1.0)], &[(1, 1.0)]]);
    network.start(SimTime::ZERO, 0, 1e12, 1);
    network.start(SimTime::ZERO, 1, 1e12, 2);
    assert_eq!(ends(network), [(1, 0.0), (2, 0.0)]);
}
