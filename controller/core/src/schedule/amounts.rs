//! An amount by node and resource. The first resources that are heard of, which most pods ask for, have a column with a
//! place for every node; of all others a node has only those that it really has, so that names that somebody makes up cost
//! no more than their own room.

use std::collections::BTreeMap;

use super::symbols::Resource;

/// Resources that have a column.
const COLUMNS: usize = 8;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Amounts {
    rows: usize,
    /// By resource, then by row.
    columns: Vec<Vec<u64>>,
    /// By row.
    others: BTreeMap<usize, BTreeMap<Resource, u64>>,
}

impl Amounts {
    /// One more row.
    pub(super) fn grow(&mut self) {
        self.rows += 1;
        self.columns.iter_mut().for_each(|column| column.push(0));
    }

    pub(super) fn get(&self, row: usize, resource: Resource) -> u64 {
        match self.columns.get(resource.index()) {
            Some(column) => column[row],
            None => self.others.get(&row).and_then(|others| others.get(&resource)).copied().unwrap_or_default(),
        }
    }

    /// Takes over an amount; whether it was another before.
    pub(super) fn set(&mut self, row: usize, resource: Resource, amount: u64) -> bool {
        let before = self.get(row, resource);
        if before == amount {
            return false;
        }
        if resource.index() < COLUMNS {
            while self.columns.len() <= resource.index() {
                self.columns.push(vec![0; self.rows]);
            }
            self.columns[resource.index()][row] = amount;
            return true;
        }
        let others = self.others.entry(row).or_default();
        if amount == 0 {
            others.remove(&resource);
        } else {
            others.insert(resource, amount);
        }
        if others.is_empty() {
            self.others.remove(&row);
        }
        true
    }

    /// Takes over everything that a row has; whether anything was different before.
    pub(super) fn replace(&mut self, row: usize, amounts: &BTreeMap<Resource, u64>) -> bool {
        let known = (0..self.columns.len()).filter_map(|index| u32::try_from(index).ok()).map(Resource);
        let others = self.others.get(&row).into_iter().flat_map(|others| others.keys().copied());
        let gone: Vec<Resource> = known.chain(others).filter(|resource| !amounts.contains_key(resource)).collect();
        let mut changed = false;
        for resource in gone {
            changed |= self.set(row, resource, 0);
        }
        for (resource, amount) in amounts {
            changed |= self.set(row, *resource, *amount);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_nobody_has_take_no_room() {
        let mut amounts = Amounts::default();
        (0..3).for_each(|_| amounts.grow());
        let odd = Resource(70_000);
        assert!(amounts.set(1, odd, 5) && amounts.set(2, Resource::CPU, 7) && !amounts.set(1, odd, 5));
        assert_eq!((amounts.get(1, odd), amounts.get(0, odd), amounts.get(2, Resource::CPU)), (5, 0, 7));
        assert!(amounts.replace(1, &BTreeMap::from([(Resource::MEMORY, 3)])));
        assert!(!amounts.replace(1, &BTreeMap::from([(Resource::MEMORY, 3)])));
        assert_eq!((amounts.get(1, odd), amounts.get(1, Resource::MEMORY)), (0, 3));
        assert!(amounts.others.is_empty() && amounts.columns.len() == 2);
    }
}
