//! What makes rates max-min fair, whatever begins and ends when.

use super::{LinkIndex, Network, Route};
use crate::units::SimTime;
use proptest::prelude::*;

/// Links by bandwidth, routes by what they cross how often, and transfers by time, route and bytes.
#[derive(Clone, Debug)]
struct Traffic {
    links: Vec<f64>,
    routes: Vec<Vec<(LinkIndex, f64)>>,
    transfers: Vec<(u64, usize, f64)>,
}

fn traffic() -> impl Strategy<Value = Traffic> {
    (2..7_usize).prop_flat_map(|links| {
        let weight = prop::sample::select(vec![0.25, 1.0 / 3.0, 0.5, 1.0, 2.0]);
        let route = prop::collection::btree_map(0..links as LinkIndex, weight, 1..=links.min(4));
        let routes = prop::collection::vec(route.prop_map(|links| links.into_iter().collect()), 1..6);
        let bandwidths = prop::collection::vec(1.0..1e3_f64, links);
        (bandwidths, routes).prop_flat_map(|(links, routes)| {
            let transfer = (0..5_000_000_000_u64, 0..routes.len(), 1.0..1e4_f64);
            let transfers = prop::collection::vec(transfer, 1..12);
            transfers.prop_map(move |transfers| Traffic { links: links.clone(), routes: routes.clone(), transfers })
        })
    })
}

fn network(traffic: &Traffic) -> Network<usize> {
    let mut network = Network::new();
    for &bytes_per_s in &traffic.links {
        network.add_link(bytes_per_s);
    }
    for links in &traffic.routes {
        network.add_route(Route { links: links.clone(), latency: SimTime::ZERO });
    }
    for (tag, &(at, route, bytes)) in traffic.transfers.iter().enumerate() {
        network.start(SimTime(at), route as u32, bytes, tag);
    }
    network
}

/// Rate and route of every transfer under way, by link.
fn check_fairness<T>(network: &Network<T>) -> Result<(), TestCaseError> {
    let rate = |transfer: &u32| network.transfers[*transfer as usize].rate_bytes_per_s;
    let weight = |transfer: &u32, link: usize| {
        let route = network.transfers[*transfer as usize].route;
        network.crossed(route).iter().find(|(crossed, _)| *crossed as usize == link).map_or(0.0, |(_, weight)| *weight)
    };
    let used: Vec<f64> = (0..network.links.len())
        .map(|link| network.links[link].active.iter().map(|transfer| rate(transfer) * weight(transfer, link)).sum())
        .collect();
    for (link, used) in used.iter().enumerate() {
        let bytes_per_s = network.links[link].bytes_per_s;
        prop_assert!(*used <= bytes_per_s * (1.0 + 1e-6), "link {link}: {used} of {bytes_per_s}");
        let booked = network.links[link].used_bytes_per_s;
        prop_assert!((used - booked).abs() <= bytes_per_s * 1e-6, "link {link}: {booked} booked, {used} used");
    }
    // Every transfer has a link that is full and on which nobody has more: raising it would lower who has no more.
    for link in &network.links {
        for transfer in &link.active {
            let route = network.crossed(network.transfers[*transfer as usize].route);
            let is_bottleneck = |&(crossed, _): &(LinkIndex, f64)| {
                let crossed = crossed as usize;
                let state = &network.links[crossed];
                let is_full = used[crossed] >= state.bytes_per_s * (1.0 - 1e-6);
                let most = state.active.iter().map(rate).fold(0.0, f64::max);
                is_full && rate(transfer) >= most * (1.0 - 1e-6)
            };
            prop_assert!(route.iter().any(is_bottleneck), "{transfer} could get more than {}", rate(transfer));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn rates_are_max_min_fair_at_any_time(traffic in traffic()) {
        let mut network = network(&traffic);
        let mut ended = 0;
        while network.step().is_some() {
            check_fairness(&network)?;
            while network.take_ended().is_some() {
                ended += 1;
            }
        }
        prop_assert_eq!(ended, traffic.transfers.len());
    }

    #[test]
    fn no_transfer_beats_its_slowest_link_and_runs_repeat(traffic in traffic()) {
        let run = || {
            let mut network = network(&traffic);
            std::iter::from_fn(move || network.next_end()).collect::<Vec<_>>()
        };
        let ends = run();
        for &(end, tag) in &ends {
            let (at, route, bytes) = traffic.transfers[tag];
            let share = |&(link, weight): &(LinkIndex, f64)| traffic.links[link as usize] / weight;
            let fastest = traffic.routes[route].iter().map(share).fold(f64::INFINITY, f64::min);
            prop_assert!((end - SimTime(at)).as_seconds() >= bytes / fastest - 1e-8);
        }
        prop_assert_eq!(run(), ends);
    }
}
