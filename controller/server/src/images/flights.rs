//! One piece of work for all that want the same at once. It goes on when nobody waits any more: whoever asks a little
//! later finds it done, or joins it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// What is under way, by what it is about.
pub(super) struct Flights<K, V>(Arc<Mutex<BTreeMap<K, watch::Receiver<Option<V>>>>>);

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: fmt::Debug, V> fmt::Debug for Flights<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

impl<K, V> Flights<K, V>
where
    K: Ord + Clone + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Joins the work on `key`, or begins it as a task of its own. `None` when the work broke down. Cancel-safe.
    pub(super) async fn join(&self, key: K, work: impl Future<Output = V> + Send + 'static) -> Option<V> {
        let mut done = {
            let mut flights = self.0.lock();
            match flights.get(&key) {
                Some(done) => done.clone(),
                None => {
                    let (result, done) = watch::channel(None);
                    flights.insert(key.clone(), done.clone());
                    // Also when it panics: nobody must wait for it for ever.
                    let landing = Landing { flights: Arc::clone(&self.0), key };
                    tokio::spawn(async move {
                        let value = work.await;
                        drop(landing);
                        result.send_replace(Some(value));
                    });
                    done
                }
            }
        };
        done.wait_for(Option::is_some).await.ok().and_then(|value| value.clone())
    }

    /// How much is under way.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

struct Landing<K: Ord, V> {
    flights: Arc<Mutex<BTreeMap<K, watch::Receiver<Option<V>>>>>,
    key: K,
}

impl<K: Ord, V> Drop for Landing<K, V> {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn those_who_want_the_same_share_it_and_the_next_begins_anew() {
        let (flights, count, go) = (Flights::default(), Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let work = || {
            let (count, go) = (Arc::clone(&count), Arc::clone(&go));
            async move {
                go.notified().await;
                count.fetch_add(1, Ordering::Relaxed)
            }
        };
        let all = async { tokio::join!(flights.join(1, work()), flights.join(1, work())) };
        let ((one, two), ()) = tokio::join!(all, async { go.notify_one() });
        assert_eq!((one, two), (Some(0), Some(0)));
        go.notify_one();
        assert_eq!(flights.join(1, work()).await, Some(1));
        assert_eq!(flights.len(), 0);
    }

    #[tokio::test]
    async fn work_goes_on_when_nobody_waits_and_one_that_breaks_down_is_over() {
        let flights: Flights<u8, u8> = Flights::default();
        let (go, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        {
            let (go, done) = (Arc::clone(&go), Arc::clone(&done));
            let waiting = flights.join(1, async move {
                go.notified().await;
                done.notify_one();
                1
            });
            tokio::select! {
                biased;
                _ = waiting => panic!("nobody let it go on"),
                () = std::future::ready(()) => {}
            }
        }
        go.notify_one();
        done.notified().await;
        assert_eq!(flights.join(2, async { panic!("broken") }).await, None);
        assert_eq!(flights.len(), 0);
    }
}
