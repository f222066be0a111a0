//! Base chains of equal priority: the kernel calls the last registered first, but this order can't be read. Each chain is walked
//! from the same state. If no chain reads a field that another writes, every order has the same effect: the sum of all effects.
//! Otherwise the field becomes unknown, and the walks are repeated.

use super::facts::{Loaded, MarkNow, Now, TouchedFields};
use super::trace::{At, CaptureKind, Verdict};
use super::walk::{ChainEnd, SetWalk, Stop, Walker};
use crate::nft::Kind;

type TiedEnd = (ChainEnd, Now);

#[derive(Clone)]
pub(super) struct Tie {
    entry: Now,
    ends: Vec<TiedEnd>,
    forgotten: TouchedFields,
}

impl Tie {
    pub(super) fn new(entry: Now) -> Self {
        Self { entry, ends: Vec::new(), forgotten: TouchedFields::default() }
    }

    pub(super) fn enter(&self, now: &mut Now) {
        let nothing = TouchedFields::default();
        *now = Now { read: nothing, written: nothing, ..self.entry };
        if self.forgotten.mark != 0 {
            now.mark = None;
        }
        if self.forgotten.connmark != 0 {
            now.connmark = None;
        }
        now.source_sent &= !self.forgotten.source;
        if self.forgotten.connection {
            now.is_tracked = None;
        }
    }

    pub(super) fn chain_ended(&mut self, end: ChainEnd, now: Now) {
        self.ends.push((end, now));
    }

    /// Fields that one chain has written and another one has read.
    fn conflict(&self) -> TouchedFields {
        let mut conflict = TouchedFields::default();
        for (index, (_, writer)) in self.ends.iter().enumerate() {
            let others = self.ends.iter().enumerate().filter(|(other, _)| *other != index);
            for (_, (_, reader)) in others {
                let mut both = writer.written.common(reader.read);
                // A NAT chain that decides ends NAT for the other.
                if writer.in_nat && reader.in_nat {
                    (both.source, both.destination) = (false, false);
                }
                conflict.add(both);
            }
        }
        conflict
    }

    /// The entry mark with all changes; `None` if two chains wrote the same bits differently.
    fn mark(&self, of: impl Fn(&Now) -> Option<MarkNow>, written: impl Fn(&Now) -> u32) -> Option<MarkNow> {
        let entry = of(&self.entry);
        let writers = self.ends.iter().map(|(_, now)| (of(now), written(now))).filter(|(_, bits)| *bits != 0);
        let (mut mark, mut done) = (entry, 0);
        for (own, bits) in writers {
            mark = match (mark, own) {
                (mark, own) if done == 0 && bits == u32::MAX || mark == own => own,
                (Some(mark), Some(own)) if done & bits == 0 && mark.of_connection == own.of_connection => {
                    let of_both = |one: u32, other: u32| (one & !bits) | (other & bits);
                    Some(MarkNow {
                        keep: of_both(mark.keep, own.keep),
                        xor: of_both(mark.xor, own.xor),
                        ..mark
                    })
                }
                _ => None,
            };
            done |= bits;
        }
        mark
    }
}

impl Walker<'_> {
    pub(super) fn untie(&self, walk: &mut SetWalk) -> Result<(), Stop> {
        let Some(tie) = walk.tie.clone() else { return Ok(()) };
        let conflict = tie.conflict();
        // A partly unknown mark counts as unknown.
        let all = |bits: u32| if bits == 0 { 0 } else { u32::MAX };
        let forget = TouchedFields { mark: all(conflict.mark), connmark: all(conflict.connmark), ..conflict };
        let (entry, ends, mut forgotten) = (tie.entry, &tie.ends, tie.forgotten);
        forgotten.add(TouchedFields { destination: false, owner: false, ..forget });
        if forgotten != tie.forgotten {
            walk.tie = Some(Box::new(Tie { entry, ends: Vec::new(), forgotten }));
            walk.place.1 = 0;
            walk.is_tie = true;
            return Ok(());
        }
        let mut undefined = |at: Option<At>| {
            walk.is_tie = true;
            Stop::Over(Verdict::Unknown, at)
        };
        if conflict.destination || conflict.owner {
            let of_chain =
                |(end, now): &TiedEnd| now.translated.or(now.captured.map(|(_, at)| at)).or(end.err()?.1);
            return Err(undefined(ends.iter().find_map(of_chain)));
        }
        let stops: Vec<(Verdict, Option<At>)> = ends.iter().filter_map(|(end, _)| end.err()).collect();
        // After a chain translates, other NAT chains are skipped (`nf_nat_inet_fn` in `net/netfilter/nf_nat_core.c`).
        let translates = |now: &Now| {
            let written = now.written.destination || now.written.source;
            now.in_nat && (written || now.captured != entry.captured)
        };
        let is_avoidable = ends.iter().any(|(end, now)| end.is_ok() && translates(now))
            && ends.iter().all(|(end, now)| end.is_ok() || now.in_nat);
        match stops[..] {
            [] => {}
            [(verdict, at), ..] if !is_avoidable && stops.iter().all(|(other, _)| *other == verdict) => {
                return Err(Stop::Over(verdict, at));
            }
            [(_, at), ..] => return Err(undefined(at)),
        }
        let captures = ends.iter().filter_map(|(_, now)| now.captured);
        let captures: Vec<_> = captures.filter(|capture| Some(*capture) != entry.captured).collect();
        let by_tproxy = |(capture, _): &&(CaptureKind, At)| matches!(capture, CaptureKind::Tproxy(_));
        let captured = captures.iter().find(by_tproxy).or(captures.first()).copied();
        let nows = ends.iter().map(|(_, now)| now);
        let deciders: Vec<&Now> = nows.clone().filter(|now| now.written.destination).collect();
        let goes_to =
            |now: &Now| (now.captured.map(|(capture, _)| capture), now.destination, now.destination_port);
        let is_clear = deciders.iter().all(|one| goes_to(one) == goes_to(deciders[0]))
            && captures.iter().filter(by_tproxy).all(|one| captured.is_some_and(|(kind, _)| kind == one.0));
        if !is_clear {
            let translated = deciders.first().and_then(|now| now.translated);
            return Err(undefined(captured.map(|(_, at)| at).or(translated)));
        }
        let mut now = deciders.first().map_or(entry, |now| **now);
        now.captured = captured.or(entry.captured);
        for one in nows.clone() {
            now.source_sent &= one.source_sent;
            now.source_done |= one.source_done;
            now.is_zoned |= one.is_zoned;
            now.perhaps_zoned |= one.perhaps_zoned;
            now.tos_changed |= one.tos_changed;
            now.rerouted |= one.rerouted;
            now.taken_by_mark |= one.taken_by_mark;
            now.passed = if one.passed == entry.passed { now.passed } else { one.passed };
            if one.state.is_none() {
                now.state = None;
            }
            if one.owner != entry.owner {
                now.owner = Loaded::Unknown;
            }
        }
        now.mark = tie.mark(|now| now.mark, |now| now.written.mark);
        now.connmark = tie.mark(|now| now.connmark, |now| now.written.connmark);
        let is_lost =
            |of: fn(&Now) -> Option<MarkNow>| of(&now).is_none() && nows.clone().all(|one| of(one).is_some());
        walk.is_tie |= is_lost(|now| now.mark) || is_lost(|now| now.connmark);
        let first = ends.first().filter(|_| !forgotten.connection);
        now.is_tracked = first.map_or(entry.is_tracked, |(_, first)| first.is_tracked);
        let before = std::mem::replace(&mut walk.now, now);
        walk.mark_before = entry.mark;
        let group = &self.view.groups[now.hook as usize][walk.place.0];
        if group.iter().any(|chain| self.view.chains()[*chain].is(Kind::Route))
            && let Err(stop) = self.route_again(walk)
        {
            walk.now = before;
            return Err(stop);
        }
        walk.tie = None;
        walk.place = (walk.place.0 + 1, 0);
        Ok(())
    }
}
