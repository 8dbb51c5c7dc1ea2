//! Whose turn it is. Pure: time is passed in, and so is what wakes somebody.
//!
//! There are as many turns at once as there are guest threads. A container computes only while it holds one, for a tick
//! of the epoch at most, and then the turn goes to the one in greatest need of those who wait:
//!
//! 1. Now and then whoever has waited longest, so that nobody starves whatever the others ask for.
//! 2. A container that has had less than its `requests.cpu`.
//! 3. The one with the least *virtual time*: what it has computed, divided by its weight. So what the requests leave is
//!    shared in proportion to them, as Linux does it for `cpu.shares` (EDGE-09).
//!
//! Whoever was idle starts where the others are: nobody saves up turns.

use std::collections::BTreeMap;

use super::quota::{Periods, Quota};

/// The weight of a container without a request, in thousandths of a core.
const LEAST_WEIGHT: u64 = 10;
/// Whoever has waited for so long goes first, but only one in any such time: a fortieth of a core at most.
const PATIENCE_NS: u64 = 400_000_000;

/// A container, for as long as it runs.
pub(crate) type Member = u64;
/// One piece of a container's work: it waits for a turn, or has one.
pub(crate) type Ticket = u64;

/// What a container has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuUsage {
    /// In nanoseconds.
    pub(crate) used_ns: u64,
    /// And how its limit has held it back.
    pub(crate) periods: Periods,
}

#[derive(Debug)]
struct Share {
    limit: Option<Quota>,
    request: Option<Quota>,
    weight: u64,
    virtual_ns: u128,
    usage: CpuUsage,
}

#[derive(Debug)]
struct Waiting<W> {
    ticket: Ticket,
    member: Member,
    since_ns: u64,
    waker: W,
}

/// The answer to [`Turns::ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Its turn is now; [`Turns::end`] must follow.
    Go,
    /// It will be woken.
    Wait,
    /// Its limit holds it back for so many nanoseconds; then it may ask again.
    Pause(u64),
}

/// See the module. `W` is what wakes a ticket.
#[derive(Debug)]
pub(crate) struct Turns<W> {
    free: usize,
    shares: BTreeMap<Member, Share>,
    waiting: Vec<Waiting<W>>,
    /// Woken for their turn, and not here yet.
    granted: Vec<(Ticket, Member)>,
    /// Who has a turn, once for each.
    running: Vec<Member>,
    /// The virtual time of whoever is furthest behind of all that want to compute.
    floor_ns: u128,
    courtesy_at_ns: u64,
    next: u64,
}

impl<W> Turns<W> {
    /// With so many turns at once.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            free: count,
            shares: BTreeMap::new(),
            waiting: Vec::new(),
            granted: Vec::new(),
            running: Vec::new(),
            floor_ns: 0,
            courtesy_at_ns: 0,
            next: 0,
        }
    }

    /// A container starts, with `limits.cpu` and `requests.cpu` in thousandths of a core; zero for none.
    pub(crate) fn join(&mut self, limit_millis: u64, request_millis: u64, now_ns: u64) -> Member {
        let member = self.number();
        let share = Share {
            limit: Quota::new(limit_millis, now_ns),
            request: Quota::new(request_millis, now_ns),
            weight: request_millis.max(LEAST_WEIGHT),
            virtual_ns: self.floor_ns,
            usage: CpuUsage::default(),
        };
        self.shares.insert(member, share);
        member
    }

    /// It is over. All its tickets were given up before.
    pub(crate) fn leave(&mut self, member: Member) {
        self.shares.remove(&member);
    }

    /// A new piece of work.
    pub(crate) fn ticket(&mut self) -> Ticket {
        self.number()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// What a container has used.
    pub(crate) fn usage(&self, member: Member) -> CpuUsage {
        self.shares.get(&member).map(|share| share.usage).unwrap_or_default()
    }

    /// This piece of work could go on. Also says whom to wake.
    pub(crate) fn ask(&mut self, member: Member, ticket: Ticket, now_ns: u64, waker: W) -> (Answer, Option<W>) {
        let granted = self.take_granted(ticket);
        let is_active = granted || self.is_active(member);
        let floor_ns = self.floor_ns;
        let Some(share) = self.shares.get_mut(&member) else { return (Answer::Wait, None) };
        share.usage.periods.wanted(now_ns);
        if let Some(wait_ns) = share.limit.as_mut().map(|quota| quota.ready_in_ns(now_ns)).filter(|wait| *wait > 0) {
            share.usage.periods.held(now_ns, wait_ns);
            self.waiting.retain(|waiting| waiting.ticket != ticket);
            let wake = if granted { self.hand_back(member, now_ns) } else { None };
            return (Answer::Pause(wait_ns), wake);
        }
        if granted {
            return (Answer::Go, None);
        }
        if !is_active {
            share.virtual_ns = share.virtual_ns.max(floor_ns);
        }
        if self.free > 0 {
            self.free -= 1;
            self.running.push(member);
            return (Answer::Go, None);
        }
        match self.waiting.iter_mut().find(|waiting| waiting.ticket == ticket) {
            Some(waiting) => waiting.waker = waker,
            None => self.waiting.push(Waiting { ticket, member, since_ns: now_ns, waker }),
        }
        (Answer::Wait, None)
    }

    /// A turn is over, in which so much was computed; `again` says that it was only interrupted and waits for the next.
    /// Says whom to wake.
    pub(crate) fn end(&mut self, member: Member, now_ns: u64, used_ns: u64, again: Option<(Ticket, W)>) -> Option<W> {
        if let Some(share) = self.shares.get_mut(&member) {
            for quota in [&mut share.limit, &mut share.request].into_iter().flatten() {
                quota.charge(now_ns, used_ns);
            }
            share.virtual_ns += u128::from(used_ns) * 1000 / u128::from(share.weight);
            share.usage.used_ns = share.usage.used_ns.saturating_add(used_ns);
        }
        // One in debt asks by itself, and hears for how long it is held back.
        let is_held = self.shares.get_mut(&member).and_then(|share| share.limit.as_mut());
        let is_held = is_held.is_some_and(|quota| quota.ready_in_ns(now_ns) > 0);
        if let Some((ticket, waker)) = again.filter(|_| !is_held) {
            self.waiting.push(Waiting { ticket, member, since_ns: now_ns, waker });
        }
        self.hand_back(member, now_ns)
    }

    /// This piece of work is no longer there. Says whom to wake.
    pub(crate) fn give_up(&mut self, member: Member, ticket: Ticket, now_ns: u64) -> Option<W> {
        self.waiting.retain(|waiting| waiting.ticket != ticket);
        if self.take_granted(ticket) { self.hand_back(member, now_ns) } else { None }
    }

    fn take_granted(&mut self, ticket: Ticket) -> bool {
        let found = self.granted.iter().position(|(granted, _)| *granted == ticket);
        found.map(|index| self.granted.swap_remove(index)).is_some()
    }

    fn is_active(&self, member: Member) -> bool {
        self.running.contains(&member) || self.waiting.iter().any(|waiting| waiting.member == member)
    }

    fn hand_back(&mut self, member: Member, now_ns: u64) -> Option<W> {
        let active = self.running.iter().copied().chain(self.waiting.iter().map(|waiting| waiting.member));
        let least = active.filter_map(|member| Some(self.shares.get(&member)?.virtual_ns)).min();
        self.floor_ns = self.floor_ns.max(least.unwrap_or(0));
        if let Some(index) = self.running.iter().position(|running| *running == member) {
            self.running.swap_remove(index);
        }
        let Some(index) = self.neediest(now_ns) else {
            self.free += 1;
            return None;
        };
        let Waiting { ticket, member, waker, .. } = self.waiting.remove(index);
        self.granted.push((ticket, member));
        self.running.push(member);
        Some(waker)
    }

    fn neediest(&mut self, now_ns: u64) -> Option<usize> {
        // In the order in which they came, so the first has waited longest.
        let first = self.waiting.first()?;
        let waited_ns = now_ns.saturating_sub(first.since_ns.max(self.courtesy_at_ns));
        if waited_ns >= PATIENCE_NS {
            self.courtesy_at_ns = now_ns;
            return Some(0);
        }
        let mut best: Option<((bool, u128), usize)> = None;
        for (index, waiting) in self.waiting.iter().enumerate() {
            let Some(share) = self.shares.get_mut(&waiting.member) else { continue };
            let has_had_its_request = share.request.as_mut().is_none_or(|quota| quota.ready_in_ns(now_ns) > 0);
            let rank = (has_had_its_request, share.virtual_ns);
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, index));
            }
        }
        best.map(|(_, index)| index)
    }
}

#[cfg(test)]
mod tests;
