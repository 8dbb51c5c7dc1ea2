//! From the name in a pod to an image that is here, by way of a registry where the name has one (POD-09).

use bytes::Bytes;
use coracle_model::Digest;
use coracle_wire::artifact::ArtifactRefusal;
use tokio::sync::watch;

use super::name::{ImageName, NameError};
use super::registry::{Credential, Found, Progress, PullError};
use super::store::Candidate;
use super::{ImageError, Images, blocking};

/// Images of registries that are remembered as none; beyond this all are forgotten.
const MAX_UNUSABLE: usize = 256;

/// How somebody wants an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// `imagePullPolicy: Always`: the registry is asked what the name means now, also when the image is here.
    pub fresh: bool,
    /// What may open the registry, the best first; `None` when no registry may be asked on behalf of whoever asks.
    pub credentials: Option<Vec<Credential>>,
}

impl Images {
    /// The image that a name in a pod means, pulled from its registry if need be; those who want the same wait for one
    /// pull, which goes on when nobody waits any more. Cancel-safe.
    ///
    /// # Errors
    /// Why there is none, in words for the pod's status.
    pub async fn obtain(&self, image: &str, wish: Wish) -> Result<Digest, ArtifactRefusal> {
        let name: ImageName =
            image.parse().map_err(|error: NameError| ArtifactRefusal::InvalidName(error.to_string()))?;
        let here = self.resolve(&name);
        if name.registry().is_none() {
            return here.ok_or_else(|| {
                let text = format!("there is no image {name}; push it with: coracle image push FILE.wasm {name}");
                ArtifactRefusal::NotFound(text)
            });
        }
        match (here, wish.credentials) {
            (Some(digest), _) if !wish.fresh => Ok(digest),
            (_, Some(credentials)) => {
                let (images, key) = (self.clone(), (name.clone(), credentials.clone()));
                let pulled = self.0.pulling.join(key, async move {
                    let (progress, _) = watch::channel((0, 0));
                    let pulled = images.pull(&name, &credentials, &progress).await;
                    pulled.map_err(|error| refusal(&name, &error))
                });
                pulled.await.unwrap_or_else(|| Err(ArtifactRefusal::Busy("the pull broke down".to_owned())))
            }
            (_, None) => Err(ArtifactRefusal::NotFound(format!(
                "the image {name} is not here, and no pod of this node names it"
            ))),
        }
    }

    /// Asks the registry of a name for its image, now, and keeps that.
    ///
    /// # Errors
    /// Why it was not pulled, without a secret in it.
    pub async fn pull(
        &self,
        name: &ImageName,
        credentials: &[Credential],
        progress: &Progress,
    ) -> Result<Digest, ImageError> {
        let has = |manifest| self.0.store.has_manifest(manifest) || self.0.unusable.lock().contains_key(&manifest);
        let Found { manifest, wasm } = self.0.registries.pull(name, credentials, has, progress).await?;
        let Some(wasm) = wasm else { return self.known_manifest(name, manifest).await };
        let name = name.clone();
        let wasm = Bytes::from(wasm);
        let candidate = blocking(move || Candidate::pulled(&name, manifest, wasm)).await;
        let kept = match candidate {
            Ok(candidate) => self.keep(candidate).await,
            Err(error) => Err(error),
        };
        if let Err(error @ (ImageError::Refused(_) | ImageError::Form(_))) = &kept {
            let mut unusable = self.0.unusable.lock();
            if unusable.len() >= MAX_UNUSABLE {
                unusable.clear();
            }
            unusable.insert(manifest, error.to_string());
        }
        kept
    }

    /// The registry named a manifest that was fetched before.
    async fn known_manifest(&self, name: &ImageName, manifest: Digest) -> Result<Digest, ImageError> {
        if let Some(why) = self.0.unusable.lock().get(&manifest) {
            return Err(ImageError::Refused(why.clone()));
        }
        let (images, name) = (self.clone(), name.clone());
        let pointed = blocking(move || images.0.store.point(&name, manifest)).await?;
        // Between two looks its last name may have been removed; the next try fetches it.
        pointed.ok_or_else(|| PullError::NotFound("it was removed here a moment ago".to_owned()).into())
    }
}

fn refusal(name: &ImageName, error: &ImageError) -> ArtifactRefusal {
    let text = format!("failed to pull image \"{name}\": {error}");
    match error {
        ImageError::Registry(PullError::Image(_)) | ImageError::Refused(_) | ImageError::Form(_) => {
            ArtifactRefusal::Unusable(text)
        }
        ImageError::Disk(_) | ImageError::Compiler(_) => {
            tracing::error!(error = error as &dyn std::error::Error, %name, "a pulled image is not kept");
            ArtifactRefusal::Busy(text)
        }
        _ => ArtifactRefusal::NotFound(text),
    }
}
