//! What can be typed behind `coracle image`, and what a controller is told about images.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use coracle_controller::images::{Authorities, AuthoritiesError, DEFAULT_CACHE_BYTES, Options};

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Push a WebAssembly file (component, or wasip1 module) under a name.
    Push(Push),
    /// Let the controller pull an image from its registry now.
    Pull(Pull),
    /// List the images that the controller has.
    List(Api),
    /// Show what an image is, what it needs, and what was made of it.
    Inspect(Named),
    /// Remove a name, and the image when nothing else needs it.
    Rm(Remove),
}

#[derive(Debug, Args)]
pub(crate) struct Push {
    /// A WebAssembly file, or an OCI layout: a directory, or a tar archive of one.
    #[arg(value_name = "FILE.wasm|LAYOUT")]
    pub(super) file: PathBuf,
    /// The name under which pods ask for it.
    #[arg(value_name = "NAME:TAG")]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) api: Api,
}

#[derive(Debug, Args)]
pub(crate) struct Pull {
    /// The image, with its registry.
    #[arg(value_name = "HOST/NAME:TAG")]
    pub(super) name: String,
    /// A secret of type kubernetes.io/dockerconfigjson that opens the registry.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) secret: Option<String>,
    #[command(flatten)]
    pub(super) api: Api,
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The image.
    #[arg(value_name = "NAME:TAG")]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) api: Api,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The image.
    #[arg(value_name = "NAME:TAG")]
    pub(super) name: String,
    /// Also when pods name it: those that run go on, and none can be started anew where its node does not have it.
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) api: Api,
}

#[derive(Debug, Args)]
pub(crate) struct Api {
    /// The kubeconfig; else $KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
}

/// How a controller keeps images.
#[derive(Debug, Args)]
pub(crate) struct Images {
    /// What compiled images may take on the disk, in bytes; beyond it those go that were used least lately.
    #[arg(long, default_value_t = DEFAULT_CACHE_BYTES, value_name = "BYTES")]
    image_cache_bytes: u64,
    /// A registry that may be spoken to over plain HTTP; may be given more than once. The loopback needs no such word.
    #[arg(long = "insecure-registry", value_name = "HOST:PORT")]
    insecure_registries: Vec<String>,
    /// Certificates (PEM) of an authority, or of a registry itself, to trust beside the system's; may be given more than
    /// once.
    #[arg(long = "registry-ca", value_name = "FILE")]
    registry_authorities: Vec<PathBuf>,
}

impl Images {
    /// For a controller whose compiler is this program.
    pub(crate) fn options(&self, program: PathBuf) -> Result<Options, AuthoritiesError> {
        let insecure_registries: BTreeSet<String> = self.insecure_registries.iter().cloned().collect();
        let authorities = Authorities::read(&self.registry_authorities)?;
        Ok(Options { program, cache_bytes: self.image_cache_bytes, insecure_registries, authorities })
    }
}
