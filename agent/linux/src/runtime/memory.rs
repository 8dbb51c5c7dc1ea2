//! Counts the memory of a container: all linear memories and tables of all its instances, and what the host holds on
//! their behalf. All containers of a node count together against what the node has (LIF-07).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use coracle_lifecycle::Exit;
use wasmtime::{Error, ResourceLimiter, Result};

use super::tally::{Full, Tally};

/// What a table takes for each of its elements, in bytes.
const TABLE_ELEMENT_BYTES: u64 = 8;

/// A container asked for more than it may have. This is what the guest's call ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OutOfMemory {
    /// `limits.memory`
    #[error("over the memory limit")]
    Limit,
    /// What the node has for all pods.
    #[error("the node is out of memory")]
    Node,
}

impl OutOfMemory {
    /// How a container ends that asked for too much.
    pub(crate) const fn exit(self) -> Exit {
        match self {
            Self::Limit => Exit::OutOfMemory,
            Self::Node => Exit::NodeOutOfMemory,
        }
    }
}

/// The account of one container.
#[derive(Debug)]
pub(crate) struct Account {
    tally: Tally,
    exceeded: OnceLock<OutOfMemory>,
    /// The most that one instance ever held.
    largest_bytes: AtomicU64,
}

impl Account {
    /// With `limits.memory` in bytes, zero for none, on a node with so much for all. What `requests.memory` names is set
    /// aside: within it a container never ends for what others have taken.
    pub(crate) fn new(limit_bytes: u64, request_bytes: u64, node: &Arc<Tally>) -> Arc<Self> {
        let tally = Tally::reserving(limit_bytes, Arc::clone(node), request_bytes);
        Arc::new(Self { tally, exceeded: OnceLock::new(), largest_bytes: AtomicU64::new(0) })
    }

    /// Whether the container has ever asked for more than there is for it (LIF-07).
    pub(crate) fn exceeded(&self) -> Option<OutOfMemory> {
        self.exceeded.get().copied()
    }

    /// What counts now, in bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.tally.used()
    }

    /// The most that ever counted, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.tally.peak()
    }

    /// Whether one more instance, as large as the largest so far, would fit.
    pub(crate) fn has_room_for_another(&self) -> bool {
        let largest = self.largest_bytes.load(Ordering::Relaxed);
        let own = self.tally.used().saturating_add(largest) <= self.tally.limit();
        own && self.tally.has_room(largest)
    }

    /// Takes so much, to be given back with [`Account::give_back`] or with the account.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), OutOfMemory> {
        self.tally.take(bytes).map_err(|full| self.exceed(full))
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.tally.give_back(bytes);
    }

    /// Takes so much for as long as the answer lives.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> Result<Held, OutOfMemory> {
        self.take(bytes)?;
        Ok(Held { account: Arc::clone(self), bytes })
    }

    fn exceed(&self, full: Full) -> OutOfMemory {
        *self.exceeded.get_or_init(|| match full {
            Full::Own => OutOfMemory::Limit,
            Full::Shared => OutOfMemory::Node,
        })
    }
}

/// A buffer of the host, on a container's account.
pub(crate) struct Held {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.give_back(self.bytes);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Held({})", self.bytes)
    }
}

/// What one store holds of its container's account; it is given back when the store is dropped.
#[derive(Debug)]
pub(crate) struct Holding {
    account: Arc<Account>,
    /// Address space of a memory; a larger one moves when it grows, and is there twice meanwhile.
    reservation_bytes: u64,
    held_bytes: u64,
    last_bytes: u64,
    host_bytes: u64,
}

impl Holding {
    /// Of a store that takes `base_bytes` before its guest has done anything.
    pub(crate) fn new(account: Arc<Account>, base_bytes: u64, reservation_bytes: u64) -> Result<Self, OutOfMemory> {
        account.take(base_bytes)?;
        let held_bytes = base_bytes;
        Ok(Self { account, reservation_bytes, held_bytes, last_bytes: 0, host_bytes: 0 })
    }

    /// What the host holds beside memories and tables was counted anew.
    pub(crate) fn settle(&mut self, host_bytes: u64) -> Result<(), OutOfMemory> {
        if host_bytes > self.host_bytes {
            let more = host_bytes - self.host_bytes;
            self.add(more)?;
        } else {
            self.give_back(self.host_bytes - host_bytes);
        }
        self.host_bytes = host_bytes;
        Ok(())
    }

    fn add(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        self.account.take(bytes)?;
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        self.account.largest_bytes.fetch_max(self.held_bytes, Ordering::Relaxed);
        Ok(())
    }

    fn grow(&mut self, bytes: u64) -> Result<bool> {
        self.add(bytes)?;
        self.last_bytes = bytes;
        Ok(true)
    }

    fn last_growth_failed(&mut self) {
        let bytes = std::mem::take(&mut self.last_bytes);
        self.give_back(bytes);
    }

    fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.held_bytes);
        self.held_bytes -= bytes;
        self.account.give_back(bytes);
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.give_back(self.held_bytes);
    }
}

impl ResourceLimiter for Holding {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let (current, desired) = (current as u64, desired as u64);
        if desired > self.reservation_bytes && !self.account.tally.has_room(desired) {
            return Err(self.account.exceed(Full::Shared).into());
        }
        self.grow(desired.saturating_sub(current))
    }

    fn memory_grow_failed(&mut self, _error: Error) -> Result<()> {
        self.last_growth_failed();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.grow((desired.saturating_sub(current) as u64).saturating_mul(TABLE_ELEMENT_BYTES))
    }

    fn table_grow_failed(&mut self, _error: Error) -> Result<()> {
        self.last_growth_failed();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
