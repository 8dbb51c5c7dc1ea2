//! Counts the memory of a container: all linear memories and tables of all its instances together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wasmtime::{Error, ResourceLimiter, Result};

/// What a table takes for each of its elements, in bytes.
const TABLE_ELEMENT_BYTES: u64 = 8;

/// The account of one container.
#[derive(Debug)]
pub(crate) struct Account {
    limit_bytes: u64,
    used_bytes: AtomicU64,
    exceeded: AtomicBool,
}

impl Account {
    /// With this limit in bytes; zero for none.
    pub(crate) fn new(limit_bytes: u64) -> Arc<Self> {
        let limit_bytes = if limit_bytes == 0 { u64::MAX } else { limit_bytes };
        Arc::new(Self { limit_bytes, used_bytes: AtomicU64::new(0), exceeded: AtomicBool::new(false) })
    }

    /// Whether the container has ever asked for more than its limit (LIF-07).
    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= self.limit_bytes)
        });
        if taken.is_err() {
            self.exceeded.store(true, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

/// What one store holds of its container's account; it is given back when the store is dropped.
#[derive(Debug)]
pub(crate) struct Holding {
    account: Arc<Account>,
    held_bytes: u64,
    last_bytes: u64,
}

impl Holding {
    pub(crate) const fn new(account: Arc<Account>) -> Self {
        Self { account, held_bytes: 0, last_bytes: 0 }
    }

    fn grow(&mut self, bytes: u64) -> Result<bool> {
        if !self.account.take(bytes) {
            return Err(Error::msg("over the memory limit"));
        }
        self.held_bytes = self.held_bytes.saturating_add(bytes);
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
        self.account.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
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
        self.grow(desired.saturating_sub(current) as u64)
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
mod tests {
    use super::*;

    const KIB: usize = 1024;

    // LIF-07
    #[test]
    fn all_memories_and_tables_of_a_container_count_together() {
        let account = Account::new(100 * KIB as u64);
        let mut one = Holding::new(Arc::clone(&account));
        let mut two = Holding::new(Arc::clone(&account));
        assert!(one.memory_growing(0, 64 * KIB, None).is_ok_and(|grown| grown));
        assert!(two.table_growing(0, 4 * KIB, None).is_ok_and(|grown| grown));
        assert!(!account.is_exceeded());
        assert!(two.memory_growing(0, 8 * KIB, None).is_err());
        assert!(account.is_exceeded());
    }

    #[test]
    fn a_store_gives_back_what_it_held() {
        let account = Account::new(64 * KIB as u64);
        let mut one = Holding::new(Arc::clone(&account));
        assert!(one.memory_growing(0, 64 * KIB, None).is_ok());
        drop(one);
        let mut two = Holding::new(Arc::clone(&account));
        assert!(two.memory_growing(0, 64 * KIB, None).is_ok());
        assert!(two.memory_grow_failed(Error::msg("no room")).is_ok());
        assert!(two.memory_growing(0, 64 * KIB, None).is_ok());
        assert!(!account.is_exceeded());
    }

    #[test]
    fn growth_beyond_a_memorys_own_maximum_is_no_excess() {
        let account = Account::new(1);
        let mut one = Holding::new(Arc::clone(&account));
        assert!(one.memory_growing(0, 64 * KIB, Some(KIB)).is_ok_and(|grown| !grown));
        assert!(!account.is_exceeded());
    }

    #[test]
    fn without_a_limit_everything_fits() {
        let account = Account::new(0);
        let mut one = Holding::new(Arc::clone(&account));
        assert!(one.memory_growing(0, usize::MAX / 2, None).is_ok_and(|grown| grown));
    }
}
