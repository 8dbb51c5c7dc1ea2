//! How many pulls go on at once: each holds at most an image and what it was unpacked from in memory. One registry never
//! has all places, so that a slow one keeps nobody from the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Pulls in all.
const PULLS: usize = 4;
/// Pulls from one registry.
const PULLS_OF_ONE: usize = 2;

#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    by_registry: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// Leave for one pull, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _of_one: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Default for Places {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(PULLS)), by_registry: Mutex::default() }
    }
}

impl Places {
    /// Waits for a place; the first who comes has it first.
    pub(super) async fn take(&self, registry: &str) -> Place {
        let of_one = {
            let mut by_registry = self.by_registry.lock();
            // Whoever waits or pulls holds a share of it.
            by_registry.retain(|_, places| Arc::strong_count(places) > 1);
            let places =
                by_registry.entry(registry.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(PULLS_OF_ONE)));
            Arc::clone(places)
        };
        // Semaphores are never closed. First one's own: nobody waits for it with a place of all in hand.
        let _of_one = of_one.acquire_owned().await.ok();
        let _of_all = Arc::clone(&self.all).acquire_owned().await.ok();
        Place { _of_one, _of_all }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn a_slow_registry_leaves_places_to_others() {
        let places = Places::default();
        let slow = [places.take("slow").await, places.take("slow").await];
        let mut third = Box::pin(places.take("slow"));
        assert!(matches!(poll!(&mut third), Poll::Pending));
        let other = places.take("other").await;
        drop(slow);
        let third = third.await;
        assert_eq!(places.by_registry.lock().len(), 2);
        drop((third, other));
        let _last = places.take("last").await;
        assert_eq!(places.by_registry.lock().len(), 1);
    }
}
