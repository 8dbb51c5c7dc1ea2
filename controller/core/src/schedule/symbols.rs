//! Texts as numbers: label keys and values, node names, taints, resources.

use std::collections::BTreeMap;
use std::sync::Arc;

/// An interned text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol(u32);

/// `effect` of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Effect {
    pub(super) fn read(text: &str) -> Option<Self> {
        Some(match text {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            _ => return None,
        })
    }
}

/// A taint of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Taint {
    pub(super) key: Symbol,
    pub(super) value: Symbol,
    pub(super) effect: Effect,
}

/// A resource, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resource(pub(super) u32);

impl Resource {
    /// `cpu`, in thousandths of a core.
    pub(super) const CPU: Self = Self(0);
    /// `memory`, in bytes.
    pub(super) const MEMORY: Self = Self(1);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A host port: protocol and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostPort(u32);

impl HostPort {
    pub(super) fn new(protocol: &str, port: u16) -> Self {
        let protocol: u32 = match protocol {
            "UDP" => 1,
            "SCTP" => 2,
            _ => 0,
        };
        Self(protocol << 16 | u32::from(port))
    }
}

/// The tables. Entries are never taken out: when there are many, the scheduler begins anew with those that are in use.
#[derive(Clone, Debug)]
pub(super) struct Symbols {
    ids: BTreeMap<Arc<str>, Symbol>,
    texts: Vec<Arc<str>>,
    /// What a text is as a whole number, for `Gt` and `Lt`.
    numbers: Vec<Option<i64>>,
    resources: Vec<Arc<str>>,
    resource_ids: BTreeMap<Arc<str>, Resource>,
    /// Keys and taint that rules name.
    pub(super) unschedulable_taint: Taint,
    /// `kubernetes.io/hostname`
    pub(super) hostname: Symbol,
}

impl Symbols {
    pub(super) fn new() -> Self {
        let placeholder = Taint { key: Symbol(0), value: Symbol(0), effect: Effect::NoSchedule };
        let mut symbols = Self {
            ids: BTreeMap::new(),
            texts: Vec::new(),
            numbers: Vec::new(),
            resources: Vec::new(),
            resource_ids: BTreeMap::new(),
            unschedulable_taint: placeholder,
            hostname: Symbol(0),
        };
        symbols.resource("cpu");
        symbols.resource("memory");
        symbols.hostname = symbols.intern("kubernetes.io/hostname");
        symbols.unschedulable_taint = Taint {
            key: symbols.intern("node.kubernetes.io/unschedulable"),
            value: symbols.intern(""),
            effect: Effect::NoSchedule,
        };
        symbols
    }

    pub(super) fn intern(&mut self, text: &str) -> Symbol {
        if let Some(known) = self.ids.get(text) {
            return *known;
        }
        let symbol = Symbol(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = text.into();
        self.numbers.push(text.parse().ok());
        self.texts.push(Arc::clone(&text));
        self.ids.insert(text, symbol);
        symbol
    }

    /// How many texts and resources there are.
    pub(super) const fn len(&self) -> usize {
        self.texts.len() + self.resources.len()
    }

    pub(super) fn text(&self, symbol: Symbol) -> &str {
        &self.texts[symbol.0 as usize]
    }

    pub(super) fn number(&self, symbol: Symbol) -> Option<i64> {
        self.numbers[symbol.0 as usize]
    }

    /// The number of a resource.
    pub(super) fn resource(&mut self, name: &str) -> Resource {
        if let Some(known) = self.resource_ids.get(name) {
            return *known;
        }
        let resource = Resource(u32::try_from(self.resources.len()).unwrap_or(u32::MAX));
        let name: Arc<str> = name.into();
        self.resources.push(Arc::clone(&name));
        self.resource_ids.insert(name, resource);
        resource
    }

    pub(super) fn resource_name(&self, resource: Resource) -> &str {
        &self.resources[resource.index()]
    }
}
