//! Numbered places that are used again: what is referred to by a small integer lives here.

/// A table of which the freed places are filled first.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Puts something into a free place.
    pub(super) fn insert(&mut self, item: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = Some(item);
            return place;
        }
        self.places.push(Some(item));
        u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes it out.
    pub(super) fn remove(&mut self, place: u32) -> Option<T> {
        let item = self.places.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(item)
    }

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// Everything that is there, with its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.places).filter_map(|(place, item)| Some((place, item.as_ref()?)))
    }
}
