//! What a shortage of the node means for its pods (PRI-09).

use alloc::string::String;

use coracle_lifecycle::Event;
use coracle_model::PodUid;

use super::Agent;
use crate::interface::Effect;
use crate::pressure::{Contender, Measured, PodUse, Resource, Shortage, victim};

impl Agent {
    /// Something was measured. While too little is left of something, what nobody needs goes first; after that, one pod.
    pub(super) fn measured(&mut self, measured: &Measured) {
        let shortages = self.pressure.judge(measured, self.now);
        if self.node.is_short(self.pressure.of_memory(), self.pressure.of_disk()) {
            self.reports.node_changed(true, self.now);
        }
        if shortages.is_empty() {
            return;
        }
        let Some(pods) = &measured.pods else {
            let reclaim_disk = shortages.iter().any(|shortage| shortage.resource == Resource::Disk);
            return self.out.effect(Effect::Survey { reclaim_disk });
        };
        let lifecycle = &self.lifecycle;
        let stays = |uid| measured.is_settling || lifecycle.status(uid).is_some_and(|status| !status.stopped);
        if self.pressure.is_waiting(stays, self.now) {
            return;
        }
        if let Some((pod, message)) = shortages.iter().find_map(|shortage| self.victim(shortage, pods)) {
            self.pressure.evicted(pod, self.now);
            self.lifecycle.handle(self.now, Event::Evicted { pod, message });
        }
    }

    /// Who has to go; not one that is on its way out already.
    fn victim(&self, shortage: &Shortage, pods: &[PodUse]) -> Option<(PodUid, String)> {
        let contenders = pods.iter().filter_map(|usage| {
            let status = self.lifecycle.status(usage.pod)?;
            let goes = status.stopped || status.reason == "Evicted" || self.lifecycle.is_removed(usage.pod);
            let pod = self.lifecycle.pod(usage.pod).filter(|_| !goes)?;
            Some(Contender { pod, usage })
        });
        victim(shortage, contenders)
    }
}
