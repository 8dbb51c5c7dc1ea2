//! A look at where a pod goes, and why, without moving anything.

use serde_json::Value;

use super::Controller;
use crate::error::ApiError;
use crate::kind::Kind;
use crate::object::Key;
use crate::schedule::Detail;

impl Controller {
    /// `GET …/pods/NAME/placement`: where a pod would go now, and why, as a `PodPlacement`; to be asked between two
    /// batches. Nothing is staged, and no pod's turn changes. It costs about a look at every node.
    ///
    /// # Errors
    /// `NotFound`
    pub fn placement(&mut self, namespace: &str, name: &str, detail: &Detail) -> Result<Value, ApiError> {
        let pod = self.view.get(&Key::new(Kind::POD, namespace, name)).cloned();
        let pod = pod.ok_or_else(|| ApiError::not_found(Kind::POD, name))?;
        Ok(self.scheduler.placement(&self.view, &pod, detail).to_json(&pod))
    }
}
