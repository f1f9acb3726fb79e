//! A part of a trace's time, and the time beyond its end.

use super::{NodeOffer, Trace, TraceEvent, TraceEventKind};
use crate::units::SimTime;
use indexmap::IndexMap;

/// A node that is up: what it is, and when it will be lost, if that was announced.
type Up = (NodeOffer, Option<SimTime>);

impl Trace {
    /// What happens after `from`, until `to`, counted from `from`. Nodes that are up at `from` come then, and those that are
    /// under notice have what is left of it.
    pub(super) fn window(&self, from: SimTime, to: SimTime) -> Vec<TraceEvent> {
        let mut events = Vec::new();
        if from > SimTime::ZERO {
            for (node, (offer, loss)) in self.up_at(from) {
                events.push(TraceEvent { time: SimTime::ZERO, node: node.to_owned(), kind: TraceEventKind::Up(offer) });
                if let Some(loss) = loss {
                    let kind = TraceEventKind::Notice { notice: loss.saturating_sub(from) };
                    events.push(TraceEvent { time: SimTime::ZERO, node: node.to_owned(), kind });
                }
            }
        }
        let is_inside = |event: &&TraceEvent| event.time <= to && (from == SimTime::ZERO || event.time > from);
        let inside = self.events.iter().filter(is_inside);
        events.extend(inside.map(|event| TraceEvent { time: event.time - from, ..event.clone() }));
        events
    }

    /// The nodes that are up at a time, in the order in which they came.
    fn up_at(&self, time: SimTime) -> IndexMap<&str, Up> {
        let mut up: IndexMap<&str, Up> = IndexMap::new();
        for event in self.events.iter().take_while(|event| event.time <= time) {
            match &event.kind {
                TraceEventKind::Up(offer) => drop(up.insert(&event.node, (offer.clone(), None))),
                TraceEventKind::Down => drop(up.shift_remove(event.node.as_str())),
                TraceEventKind::Notice { notice } => {
                    if let Some((_, loss)) = up.get_mut(event.node.as_str()) {
                        *loss = Some(event.time.saturating_add(*notice));
                    }
                }
                TraceEventKind::Cancelled => {
                    if let Some((_, loss)) = up.get_mut(event.node.as_str()) {
                        *loss = None;
                    }
                }
            }
        }
        up
    }

    /// Ends the trace at `horizon`, and says in a note what that leaves out or adds. Beyond its end nobody has observed
    /// anything: the nodes that are up then are taken to stay.
    pub(super) fn end_at(&mut self, horizon: SimTime) {
        let note = horizon_note(self, horizon);
        self.notes.extend(note);
        self.events = self.window(SimTime::ZERO, horizon);
        self.span = horizon;
    }
}

/// What a horizon leaves out of a trace, or adds to it.
pub(super) fn horizon_note(trace: &Trace, horizon: SimTime) -> Option<String> {
    let left_out = trace.events.iter().filter(|event| event.time > horizon).count();
    if horizon < trace.span {
        return Some(format!("the horizon of {horizon} ends it before its last row: {left_out} events are left out"));
    }
    (horizon > trace.span).then(|| {
        format!(
            "it ends at {}: from then to the horizon of {horizon} the {} nodes that are up at its end are taken to stay, which \
             nobody observed",
            trace.span,
            trace.up_at(trace.span).len()
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::trace::{ReadOptions, TraceEventKind, parse, parse_with};
    use crate::units::SimTime;

    const TEXT: &str =
        "time_s,event,node,gpu_type\n0,up,a,T4\n0,up,b,T4\n50,notice,b,\n100,down,a,\n170,down,b,\n200,up,c,L4\n";

    #[test]
    fn a_window_begins_with_what_is_up_then() {
        let told = |from: u64, to: u64| {
            let events = parse(TEXT, "t").unwrap().window(SimTime::SECOND * from, SimTime::SECOND * to);
            let kind = |kind: &TraceEventKind| match kind {
                TraceEventKind::Up(offer) => format!("up {}", offer.gpu_type.as_deref().unwrap_or_default()),
                TraceEventKind::Notice { notice } => format!("notice {}", notice.as_seconds()),
                TraceEventKind::Down => "down".to_owned(),
                TraceEventKind::Cancelled => "cancelled".to_owned(),
            };
            let story = events.iter().map(|e| format!("{} {} {}; ", e.time.as_seconds(), e.node, kind(&e.kind)));
            story.collect::<String>()
        };
        assert_eq!(told(60, 170), "0 a up T4; 0 b up T4; 0 b notice 110; 40 a down; 110 b down; ");
        // Who goes at the very begin was never there.
        assert_eq!(told(100, 199), "0 b up T4; 0 b notice 70; 70 b down; ");
        assert_eq!(told(180, 200), "20 c up L4; ");
        assert_eq!(told(0, 60), "0 a up T4; 0 b up T4; 50 b notice 120; ");
    }

    #[test]
    fn a_horizon_cuts_or_holds_and_says_so() {
        let ended = |seconds: u64| {
            let horizon = Some(SimTime::SECOND * seconds);
            parse_with(TEXT, "t", &ReadOptions { horizon, ..ReadOptions::default() }).unwrap()
        };
        let cut = ended(120);
        assert_eq!((cut.events.len(), cut.span), (4, SimTime::SECOND * 120));
        assert!(cut.notes.last().unwrap().contains("2 events are left out"), "{:?}", cut.notes);
        let held = ended(500);
        assert_eq!((held.events.len(), held.span), (6, SimTime::SECOND * 500));
        assert!(
            held.notes.last().unwrap().contains("the 1 nodes that are up at its end are taken to stay"),
            "{:?}",
            held.notes
        );
        assert_eq!(ended(200).notes.len(), 1);
    }
}
