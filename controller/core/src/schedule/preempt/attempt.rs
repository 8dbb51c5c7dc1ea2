//! One attempt: whether a pod may preempt, and whom.

use std::sync::Arc;

use super::super::overlay::Cluster;
use super::super::{Scheduler, State, Tracked};
use super::candidates::{Scene, message};
use super::victims::{Preemptor, Resident, Victims};
use crate::object::{Key, Object};

/// What preemption came to.
pub(in super::super) enum Preemption {
    /// Nobody can be made to go, with why.
    None(String),
    /// Victims are on their way out already.
    Waits,
    /// These go, and the room is held; these others lose theirs.
    Victims { node: Arc<str>, victims: Victims, losers: Vec<Key> },
}

impl Scheduler {
    /// Looks for victims for a pod that fits nowhere.
    pub(in super::super) fn preempt(&mut self, pod: &Object, tracked: &Tracked) -> Preemption {
        if !tracked.seen.asked.rulebook.preempts {
            return Preemption::None(String::new());
        }
        if pod.head()["spec"]["preemptionPolicy"] == "Never" {
            return Preemption::None("not eligible due to preemptionPolicy=Never.".to_owned());
        }
        let own = self.stand_aside(&pod.key);
        let preemption = self.look_for_victims(tracked);
        self.stand_again(own);
        preemption
    }

    fn look_for_victims(&mut self, tracked: &Tracked) -> Preemption {
        self.make_room(&tracked.seen, tracked.priority);
        let Self {
            nodes,
            symbols,
            census,
            nominations,
            storage,
            evaluations,
            preemptions,
            residents,
            budgets,
            seed,
            ..
        } = self;
        let cluster = Cluster { nodes, symbols, census, nominations, storage, overlay: None };
        let evaluation = evaluations.of(&tracked.seen.asked, tracked.priority, cluster, *seed);
        let nominated = match tracked.state {
            // Victims on a node that is gone make room for nobody.
            State::Waiting(_, node) => node.filter(|node| nodes.is_present(*node)),
            State::Bound(_) => None,
        };
        if let Some(node) = nominated {
            let for_good = evaluation.refusals_of(node).iter().any(|refusal| refusal.is_for_good());
            let going = |resident: &Arc<Resident>| resident.is_preempted && resident.priority < tracked.priority;
            if !for_good && residents.on(node).iter().any(going) {
                return Preemption::Waits;
            }
        }
        let preemptor = Preemptor { asked: &tracked.seen.asked, class: tracked.seen.class, priority: tracked.priority };
        let scene = Scene { cluster, evaluation, residents, budgets };
        let Some((node, victims)) = preemptions.best(scene, preemptor) else {
            return Preemption::None(message(scene, preemptor));
        };
        let lower = nominations.on(node).iter().filter(|nominee| nominee.priority < tracked.priority);
        let mut losers: Vec<Key> = lower.map(|nominee| nominee.key.clone()).collect();
        // In which order they were nominated plays no part.
        losers.sort();
        Preemption::Victims { node: Arc::clone(nodes.name(node)), victims, losers }
    }
}
