use super::*;

const MS: u64 = 1_000_000;
const TICK: u64 = 10 * MS;

/// Guests that never stop computing, on cores that do nothing else, in virtual time.
struct World {
    turns: Turns<usize>,
    guests: Vec<Guest>,
    /// Of each core: when its turn ends, and whose it is.
    cores: Vec<(u64, Option<usize>)>,
    now_ns: u64,
}

struct Guest {
    member: Member,
    ticket: Ticket,
    /// When it asks next; nothing while it waits to be woken or computes.
    asks_at_ns: Option<u64>,
    waits_since_ns: u64,
    longest_wait_ns: u64,
}

impl World {
    /// Guests by limit and request.
    fn new(cores: usize, guests: &[(u64, u64)]) -> Self {
        let mut turns = Turns::new(cores);
        let mut made = Vec::new();
        for (limit, request) in guests {
            let member = turns.join(*limit, *request, 0);
            let ticket = turns.ticket();
            made.push(Guest { member, ticket, asks_at_ns: Some(0), waits_since_ns: 0, longest_wait_ns: 0 });
        }
        Self { turns, guests: made, cores: vec![(0, None); cores], now_ns: 0 }
    }

    fn ask(&mut self, index: usize) {
        let guest = &mut self.guests[index];
        guest.asks_at_ns = None;
        let (answer, wake) = self.turns.ask(guest.member, guest.ticket, self.now_ns, index);
        match answer {
            Answer::Go => {
                let core = self.cores.iter_mut().find(|(_, guest)| guest.is_none());
                let core = core.unwrap_or_else(|| panic!("more turns than cores"));
                *core = (self.now_ns + TICK, Some(index));
                guest.longest_wait_ns = guest.longest_wait_ns.max(self.now_ns - guest.waits_since_ns);
            }
            Answer::Wait => {}
            Answer::Pause(wait_ns) => {
                guest.asks_at_ns = Some(self.now_ns + wait_ns);
                guest.waits_since_ns = self.now_ns + wait_ns;
            }
        }
        if let Some(woken) = wake {
            self.ask(woken);
        }
    }

    fn run_until(&mut self, end_ns: u64) {
        loop {
            let asks = self.guests.iter().filter_map(|guest| guest.asks_at_ns);
            let ends = self.cores.iter().filter_map(|(at, guest)| guest.map(|_| *at));
            let Some(next) = asks.chain(ends).min().filter(|next| *next <= end_ns) else { break };
            self.now_ns = next;
            for core in 0..self.cores.len() {
                if let (at, Some(index)) = self.cores[core]
                    && at <= self.now_ns
                {
                    self.cores[core].1 = None;
                    let guest = &mut self.guests[index];
                    guest.waits_since_ns = self.now_ns;
                    let again = Some((guest.ticket, index));
                    let woken = self.turns.end(guest.member, self.now_ns, TICK, again);
                    for asking in woken.into_iter().chain([index].into_iter().filter(|index| woken != Some(*index))) {
                        self.ask(asking);
                    }
                }
            }
            for index in 0..self.guests.len() {
                if self.guests[index].asks_at_ns.is_some_and(|at| at <= self.now_ns) {
                    self.ask(index);
                }
            }
        }
        self.now_ns = end_ns;
    }

    /// Thousandths of a core since the start.
    fn millis(&self, index: usize) -> u64 {
        self.turns.usage(self.guests[index].member).used_ns * 1000 / self.now_ns
    }
}

#[track_caller]
fn assert_near(found: u64, want: u64, percent: u64) {
    let (low, high) = (want - want * percent / 100, want + want * percent / 100);
    assert!((low..=high).contains(&found), "{found}m instead of {want}m");
}

// EDGE-09
#[test]
fn a_limit_is_reached_and_held_among_eight_busy_neighbours() {
    for limit in [50, 250, 1000] {
        // A request that is not given is the limit's.
        let mut guests = vec![(limit, limit)];
        guests.extend([(0, 0); 8]);
        let mut world = World::new(2, &guests);
        world.run_until(10_000 * MS);
        assert_near(world.millis(0), limit, 3);
        for neighbour in 2..9 {
            assert_near(world.millis(neighbour), world.millis(1), 10);
        }
        let all: u64 = (0..9).map(|guest| world.millis(guest)).sum();
        assert_near(all, 2000, 1);
    }
}

// EDGE-09
#[test]
fn what_the_requests_leave_is_shared_in_proportion_to_them() {
    let mut world = World::new(1, &[(0, 100), (0, 300)]);
    world.run_until(60_000 * MS);
    assert_near(world.millis(0), 250, 5);
    assert_near(world.millis(1), 750, 5);
}

// EDGE-09
#[test]
fn nobody_starves_even_where_more_is_requested_than_there_is() {
    let mut world = World::new(1, &[(0, 2000), (0, 2000), (0, 0), (0, 10)]);
    world.run_until(60_000 * MS);
    for guest in &world.guests {
        assert!(guest.longest_wait_ns <= 2000 * MS, "{} ns", guest.longest_wait_ns);
    }
    assert!(world.millis(2) >= 5);
    assert_near(world.millis(0), world.millis(1), 5);
}

#[test]
fn what_was_idle_does_not_make_up_for_it() {
    let mut world = World::new(1, &[(0, 0), (0, 0)]);
    world.guests[1].asks_at_ns = Some(30_000 * MS);
    world.guests[1].waits_since_ns = 30_000 * MS;
    world.run_until(31_000 * MS);
    let late = world.turns.usage(world.guests[1].member).used_ns;
    assert_near(late / MS, 500, 5);
}

#[test]
fn who_was_interrupted_goes_on_unless_another_is_in_greater_need() {
    let mut turns = Turns::new(1);
    let members = [turns.join(0, 500, 0), turns.join(0, 0, 0)];
    let tickets = [0; 2].map(|_| turns.ticket());
    assert_eq!(turns.ask(members[0], tickets[0], 0, "a"), (Answer::Go, None));
    assert_eq!(turns.ask(members[1], tickets[1], 0, "b"), (Answer::Wait, None));
    assert_eq!(turns.end(members[0], TICK, TICK, Some((tickets[0], "a"))), Some("a"));
    assert_eq!(turns.ask(members[0], tickets[0], TICK, "a"), (Answer::Go, None));
    // It has had all that it asked for at the start, and more.
    assert_eq!(turns.end(members[0], 2 * TICK, 20 * TICK, Some((tickets[0], "a"))), Some("b"));
}

#[test]
fn a_turn_that_nobody_comes_for_goes_to_the_next() {
    let mut turns = Turns::new(1);
    let members = [0; 3].map(|_| turns.join(0, 0, 0));
    let tickets = [0; 3].map(|_| turns.ticket());
    assert_eq!(turns.ask(members[0], tickets[0], 0, "a"), (Answer::Go, None));
    assert_eq!(turns.ask(members[1], tickets[1], 0, "b"), (Answer::Wait, None));
    assert_eq!(turns.ask(members[2], tickets[2], 0, "c"), (Answer::Wait, None));
    assert_eq!(turns.end(members[0], TICK, TICK, None), Some("b"));
    // It is killed before it comes.
    assert_eq!(turns.give_up(members[1], tickets[1], TICK), Some("c"));
    turns.leave(members[1]);
    assert_eq!(turns.ask(members[2], tickets[2], TICK, "c"), (Answer::Go, None));
    assert_eq!(turns.end(members[2], 2 * TICK, TICK, None), None);
    assert_eq!(turns.ask(members[0], tickets[0], 2 * TICK, "a"), (Answer::Go, None));
}

// EDGE-09
#[test]
fn the_instances_of_one_container_share_its_limit() {
    let mut turns = Turns::new(2);
    let member = turns.join(100, 0, 0);
    let (one, two) = (turns.ticket(), turns.ticket());
    assert_eq!(turns.ask(member, one, 0, ()), (Answer::Go, None));
    assert_eq!(turns.ask(member, two, 0, ()), (Answer::Go, None));
    assert_eq!(turns.end(member, TICK, TICK, None), None);
    assert_eq!(turns.end(member, TICK, TICK, None), None);
    // Twenty milliseconds, of which ten were saved up.
    assert_eq!(turns.ask(member, one, TICK, ()), (Answer::Pause(100 * MS + 1), None));
}

#[test]
fn what_is_used_and_held_back_is_told_in_periods() {
    let mut world = World::new(1, &[(100, 0)]);
    world.run_until(10_000 * MS);
    let usage = world.turns.usage(world.guests[0].member);
    assert_near(usage.used_ns / MS, 1000, 3);
    assert!(usage.periods.wanted >= 99, "{usage:?}");
    assert!(usage.periods.held >= 95 && usage.periods.held <= usage.periods.wanted, "{usage:?}");
    assert_near(usage.periods.held_ns / MS, 9000, 5);
}
