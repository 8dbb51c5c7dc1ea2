//! Measures what the node has left and what pods use, and makes room on the disk, when the core asks for it (PRI-09).

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_agent_core::pressure::{ContainerUse, Measured, PodUse, Room};
use coracle_model::PodUid;

use super::Driver;
use crate::memory;
use crate::space::Space;
use crate::volumes::{Rubbish, Use};

impl Driver {
    /// What is left; with what each pod uses, if that is wanted.
    pub(super) fn measure(&self, with_pods: bool) -> Measured {
        let disk = Space::around(self.disk.path());
        Measured {
            memory: memory::room(),
            disk: disk.map(|space| Room { total_bytes: space.total_bytes, available_bytes: space.free_bytes }),
            pods: with_pods.then(|| self.uses()),
            is_settling: Arc::strong_count(&self.removing) > 1,
        }
    }

    fn uses(&self) -> Vec<PodUse> {
        let of_volumes = |pod, Use { memory_bytes, disk_bytes }: Use| PodUse {
            pod,
            memory_bytes,
            disk_bytes,
            containers: Vec::new(),
        };
        let volumes = self.volumes.uses().map(|(pod, used)| (pod, of_volumes(pod, used)));
        let mut pods: BTreeMap<PodUid, PodUse> = volumes.collect();
        for usage in self.runtime.usage(self.now()).containers {
            let pod = pods.entry(usage.uid).or_insert_with(|| of_volumes(usage.uid, Use::default()));
            pod.memory_bytes = pod.memory_bytes.saturating_add(usage.memory_bytes);
            pod.containers.push(ContainerUse {
                name: usage.container,
                memory_bytes: usage.memory_bytes,
                disk_bytes: usage.storage_bytes,
            });
        }
        pods.into_values().collect()
    }

    /// Throws away artifacts that no pod of this node needs.
    pub(super) fn reclaim_disk(&mut self) {
        let pods = self.agent.statuses().filter_map(|status| self.agent.pod(status.uid));
        // A pod that is about to start may not be on the disk yet.
        let images = pods.flat_map(|pod| &pod.containers).map(|container| container.image.clone());
        self.artifacts.want_also(images.collect::<Vec<_>>());
        let bytes = self.artifacts.reclaim(|image| self.runtime.is_running(image));
        if bytes > 0 {
            tracing::info!(bytes, "the disk is short of room: artifacts that no pod needs are gone");
        }
    }

    /// Removing many files takes a while, so that is done elsewhere.
    pub(super) fn remove(&self, rubbish: Option<Rubbish>) {
        if let Some(rubbish) = rubbish {
            let removing = Arc::clone(&self.removing);
            tokio::task::spawn_blocking(move || {
                rubbish.remove();
                drop(removing);
            });
        }
    }
}
