//! The sample workload, applied as a user would apply it.

use coracle_controller::committer::Cluster;
use coracle_controller_core::manifest;
use coracle_controller_core::request::{FieldValidation, Request, Verb};

use crate::Failure;

/// Also a manifest to start from: the README shows it.
const SAMPLE: &str = include_str!("sample.yaml");

/// Applies the sample; a second start finds it unchanged.
///
/// # Errors
/// What the API says against it.
pub(super) async fn apply(cluster: &Cluster) -> Result<(), Failure> {
    for document in manifest::parse(SAMPLE.as_bytes())? {
        let (kind, namespace, name) = manifest::identify(&document.value)?;
        let request = Request {
            kind,
            namespace,
            name,
            subresource: None,
            verb: Verb::Apply(document.value),
            dry_run: false,
            field_validation: FieldValidation::Strict,
        };
        cluster.execute(request).await?;
    }
    Ok(())
}
