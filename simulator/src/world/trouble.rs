//! What goes wrong, and how often.

use crate::controller::Crash;
use crate::network::{Happening, Weather};
use crate::node::Node;
use crate::users;

use super::World;

/// How far a wall clock may jump, in milliseconds: two hours, either way.
const JUMP_MS: u64 = 7_200_000;

impl World<'_> {
    /// One thing that goes wrong, or that somebody wants, or nothing.
    pub(super) fn trouble(&mut self) {
        let node = usize::try_from(self.chance.below(self.nodes.len() as u64)).unwrap_or(0);
        // Now and then longer than it takes until the pods of a lost node are evicted.
        let times = if self.chance.per_mille(100) { 8 } else { 1 };
        let later = self.now + 500 + times * self.chance.below(60_000);
        match self.chance.below(1000) {
            0..=119 => {
                let wish = users::wish(&mut self.chance);
                self.ask(wish);
            }
            120..=139 => self.weather = Weather::of(&mut self.chance),
            140..=149 => self.weather = Weather::FAIR,
            150..=157 if !self.nodes[node].cut_off => {
                self.say(&format!("node-{node} is cut off"));
                self.nodes[node].cut_off = true;
                self.agenda.at(later, Happening::Reunited { node });
            }
            158..=163 if self.nodes[node].is_up() => {
                self.say(&format!("the agent of node-{node} crashes"));
                self.report.crashes += 1;
                self.with_node(node, Node::crash);
                self.agenda.at(later, Happening::AgentStarts { node });
            }
            164..=171 => self.with_node(node, Node::break_link),
            172..=174 if self.controller.is_up() => {
                self.crash = Some(if self.chance.per_mille(500) { Crash::BeforeCommit } else { Crash::AfterCommit });
                if self.chance.per_mille(500) {
                    let wish = users::wish(&mut self.chance);
                    self.ask(wish);
                }
            }
            175 => self.ask(users::forget_node(&self.nodes[node].name)),
            176..=183 => self.oddity(node, later),
            184..=191 => {
                let wish = users::change_node(&self.nodes[node].name, &mut self.chance);
                self.ask(wish);
            }
            _ => {}
        }
    }

    /// Full disks, memory that runs short, clocks that jump, processes that stand still.
    fn oddity(&mut self, node: usize, later: u64) {
        self.report.oddities += 1;
        match self.chance.below(7) {
            0 => {
                self.say("the disk of the controller is full");
                self.controller.set_full(self.now, true);
                self.agenda.at(later, Happening::ControllerHasRoom);
            }
            1 => {
                self.say("the disk of the controller has no room for its next batch");
                self.crash = Some(Crash::NoRoom);
            }
            2 => {
                self.say(&format!("the disk of node-{node} is full"));
                self.nodes[node].disk_is_full = true;
                self.agenda.at(later, Happening::NodeHasRoom { node });
            }
            3 => {
                let to_ms = self.chance.below(2 * JUMP_MS);
                self.say(&format!("the wall clock of the controller jumps to {to_ms} ms"));
                self.controller.set_wall_offset(to_ms);
            }
            4 => {
                self.say(&format!("the agent of node-{node} stands still"));
                self.nodes[node].stand_still();
                self.agenda.at(later, Happening::NodeGoesOn { node });
            }
            5 => {
                self.say(&format!("node-{node} is short of memory"));
                self.nodes[node].memory_is_short = true;
                self.agenda.at(later, Happening::NodeHasRoom { node });
            }
            _ => {
                self.say("the controller stands still");
                self.controller_stands_still = true;
                self.agenda.at(later, Happening::ControllerGoesOn);
            }
        }
    }
}
