//! The artifacts of one node, as far as a hollow one has any. Pure.

use std::collections::BTreeMap;

use coracle_agent_core::Input;
use coracle_model::Digest;
use coracle_wire::artifact::ArtifactManifest;

/// See the module.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Whether artifacts are pulled; else every image is here from the start.
    pulls: bool,
    /// Image and artifact by the name under which they were pulled.
    images: BTreeMap<String, (Digest, Digest)>,
    /// By the artifact: the name and the image.
    pulling: BTreeMap<Digest, (String, Digest)>,
}

impl Disk {
    pub(crate) const fn new(pulls: bool) -> Self {
        Self { pulls, images: BTreeMap::new(), pulling: BTreeMap::new() }
    }

    pub(crate) fn find(&self, image: String) -> Input {
        let digest = match self.images.get(&image) {
            Some((digest, _)) => Some(*digest),
            None => (!self.pulls).then(|| digest_of_name(&image)),
        };
        Input::ArtifactFound { image, digest }
    }

    pub(crate) fn begin(&mut self, image: String, manifest: &ArtifactManifest) -> Input {
        let artifact = manifest.artifact;
        let here = self.images.values().any(|(_, other)| *other == artifact);
        let complete = here || !self.pulls;
        if complete {
            self.images.insert(image, (manifest.image, artifact));
        } else {
            self.pulling.insert(artifact, (image, manifest.image));
        }
        Input::ArtifactBegun { artifact, complete, have: Vec::new() }
    }

    pub(crate) fn finish(&mut self, artifact: Digest) -> Input {
        if let Some((image, digest)) = self.pulling.remove(&artifact) {
            self.images.insert(image, (digest, artifact));
        }
        Input::ArtifactFinished { artifact, result: Ok(()) }
    }
}

/// A digest for an image that nobody ever saw: FNV-1a of its name, four times with another beginning.
fn digest_of_name(name: &str) -> Digest {
    let mut bytes = [0; 32];
    for (place, chunk) in (0_u64..).zip(bytes.chunks_exact_mut(8)) {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ place, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        chunk.copy_from_slice(&hash.to_le_bytes());
    }
    Digest(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> ArtifactManifest {
        ArtifactManifest {
            image: Digest([1; 32]),
            artifact: Digest([2; 32]),
            size: 1,
            target: String::new(),
            engine: String::new(),
            blocks: vec![Digest([3; 32])],
            signature: Vec::new(),
        }
    }

    fn found(disk: &Disk, image: &str) -> Option<Digest> {
        match disk.find(image.to_owned()) {
            Input::ArtifactFound { digest, .. } => digest,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_disk_that_pulls_has_an_image_once_it_was_pulled() {
        let mut disk = Disk::new(true);
        assert_eq!(found(&disk, "a:1"), None);
        let begun = disk.begin("a:1".to_owned(), &manifest());
        assert_eq!(begun, Input::ArtifactBegun { artifact: Digest([2; 32]), complete: false, have: Vec::new() });
        assert_eq!(found(&disk, "a:1"), None);
        disk.finish(Digest([2; 32]));
        assert_eq!(found(&disk, "a:1"), Some(Digest([1; 32])));
        let again = disk.begin("b:1".to_owned(), &manifest());
        assert_eq!(again, Input::ArtifactBegun { artifact: Digest([2; 32]), complete: true, have: Vec::new() });
        assert_eq!(found(&disk, "b:1"), Some(Digest([1; 32])));
    }

    #[test]
    fn a_disk_that_does_not_pull_has_everything() {
        let disk = Disk::new(false);
        assert_eq!(found(&disk, "a:1"), found(&disk, "a:1"));
        assert_ne!(found(&disk, "a:1"), found(&disk, "a:2"));
    }
}
