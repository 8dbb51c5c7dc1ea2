//! A TCP proxy that is a bad link: thin, long, lossy, and cut whenever the test says so.
//!
//! What is lost on a real link is sent again by TCP and holds up all that is behind it, so here a lost packet is one
//! that comes late, with everything after it. Seeded; one rate for both directions each, shared by all connections.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What travels as one.
const PACKET: usize = 1400;
/// What a router on the way holds, in packets; beyond that the sender has to wait.
const QUEUE: usize = 45;
/// When TCP notices that a packet was lost, beyond a round trip.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// How bad it is.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Bytes a second, each way.
    pub bytes_per_second: u64,
    /// From one end to the other.
    pub delay: Duration,
    /// Packets lost of a thousand.
    pub loss_per_mille: u64,
}

/// A link between whoever connects to it and an address behind it. It ends with the test.
#[derive(Debug)]
pub struct SlowLink {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    weather: Weather,
    ended: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
    /// When the line is free again, up and down.
    free_at: [Mutex<Instant>; 2],
    chance: Mutex<u64>,
    bytes: [AtomicU64; 2],
    accepted: AtomicU64,
}

/// From the one who connects, or back to it.
#[derive(Clone, Copy, Debug)]
enum Way {
    Up,
    Down,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SlowLink {
    /// A link to a port of this machine.
    ///
    /// # Panics
    /// When the loopback has no free port.
    #[must_use]
    pub fn to(port: u16, weather: Weather, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        let own = listener.local_addr().expect("it has an address").port();
        let now = Instant::now();
        let shared = Arc::new(Shared {
            weather,
            ended: AtomicBool::new(false),
            connections: Mutex::default(),
            free_at: [Mutex::new(now), Mutex::new(now)],
            chance: Mutex::new(seed),
            bytes: [AtomicU64::new(0), AtomicU64::new(0)],
            accepted: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if accepting.ended.load(Ordering::Relaxed) {
                    return;
                }
                // Nobody behind it: the connection is closed, as a firewall would.
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                accepting.accepted.fetch_add(1, Ordering::Relaxed);
                carry(&accepting, &near, &far);
            }
        });
        Self { port: own, shared }
    }

    /// `mqtt://127.0.0.1:PORT` of this end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// Breaks every connection at once.
    pub fn cut(&self) {
        for connection in lock(&self.shared.connections).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Bytes that came down so far.
    #[must_use]
    pub fn bytes_down(&self) -> u64 {
        self.shared.bytes[Way::Down as usize].load(Ordering::Relaxed)
    }

    /// Connections so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.cut();
        // The listener waits for one more.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn chance(&self, bound: u64) -> u64 {
        let mut state = lock(&self.chance);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// When a packet that is sent now arrives.
    fn arrival(&self, way: Way, bytes: usize) -> Instant {
        let mut free_at = lock(&self.free_at[way as usize]);
        let takes = Duration::from_nanos(bytes as u64 * 1_000_000_000 / self.weather.bytes_per_second);
        *free_at = (*free_at).max(Instant::now()) + takes;
        let again = if self.chance(1000) < self.weather.loss_per_mille {
            self.weather.delay * 2 + RETRANSMISSION
        } else {
            Duration::ZERO
        };
        *free_at + self.weather.delay + again
    }
}

/// Packets on their way, each with when it arrives.
#[derive(Debug, Default)]
struct Packets {
    queue: VecDeque<(Instant, Vec<u8>)>,
    ended: bool,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Flight {
    packets: Mutex<Packets>,
    changed: Condvar,
}

fn carry(shared: &Arc<Shared>, near: &TcpStream, far: &TcpStream) {
    let pairs = [(Way::Up, near, far), (Way::Down, far, near)];
    for (way, from, to) in pairs {
        let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { return };
        let _ = to.set_nodelay(true);
        let flight = Arc::new(Flight::default());
        let (sending, receiving) = (Arc::clone(&flight), flight);
        let sender = Arc::clone(shared);
        thread::spawn(move || send(&sender, way, from, &sending));
        let receiver = Arc::clone(shared);
        thread::spawn(move || receive(&receiver, way, to, &receiving));
    }
    let mut connections = lock(&shared.connections);
    connections.extend([near.try_clone(), far.try_clone()].into_iter().flatten());
}

fn send(shared: &Shared, way: Way, mut from: TcpStream, flight: &Flight) {
    let mut packet = [0; PACKET];
    while let Ok(length) = from.read(&mut packet) {
        let mut packets = lock(&flight.packets);
        if length == 0 || packets.ended {
            break;
        }
        // A lost packet holds up those behind it.
        let behind = packets.queue.back().map(|(at, _)| *at);
        let at = shared.arrival(way, length);
        packets.queue.push_back((behind.map_or(at, |behind| behind.max(at)), packet[..length].to_vec()));
        flight.changed.notify_all();
        while packets.queue.len() >= QUEUE && !packets.ended {
            packets = flight.changed.wait(packets).unwrap_or_else(PoisonError::into_inner);
        }
    }
    lock(&flight.packets).ended = true;
    flight.changed.notify_all();
}

fn receive(shared: &Shared, way: Way, mut to: TcpStream, flight: &Flight) {
    loop {
        let mut packets = lock(&flight.packets);
        let (at, packet) = loop {
            match packets.queue.pop_front() {
                Some(next) => break next,
                None if packets.ended => {
                    let _ = to.shutdown(Shutdown::Both);
                    return;
                }
                None => packets = flight.changed.wait(packets).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(packets);
        // This is the link itself, and not a test that waits.
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&packet).is_err() {
            lock(&flight.packets).ended = true;
            flight.changed.notify_all();
            return;
        }
        shared.bytes[way as usize].fetch_add(packet.len() as u64, Ordering::Relaxed);
        flight.changed.notify_all();
    }
}
