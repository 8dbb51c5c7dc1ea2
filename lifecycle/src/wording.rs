//! What people are told of a container, in a kubelet's words: events (LIF-12) and the reasons of waiting (LIF-02,
//! LIF-05, POD-09).

use alloc::format;
use alloc::string::{String, ToString};

use coracle_model::{Container, Pod};

use crate::backoff;
use crate::container::Scene;
use crate::effects::{Effects, Tone};
use crate::event::ImageFailure;

/// A reason, and a message that may be empty.
pub(crate) type Waiting = (&'static str, String);

/// Tells something about the scene's container.
pub(crate) fn tell(scene: &Scene<'_>, tone: Tone, reason: &str, message: String, effects: &mut Effects) {
    effects.tell(scene.pod.uid, &scene.container.name, tone, reason, message);
}

/// A pull just failed.
pub(crate) fn tell_pull_failed(scene: &Scene<'_>, failure: &ImageFailure, effects: &mut Effects) {
    let image = &scene.container.image;
    let (word, message) = pull_error(failure, image);
    let (reason, message) = match failure {
        ImageFailure::Pull(why) => ("Failed", format!("Failed to pull image \"{image}\": {why}")),
        ImageFailure::NeverPull => ("ErrImageNeverPull", message),
        ImageFailure::InvalidName(_) => ("InspectFailed", message),
    };
    tell(scene, Tone::Warning, reason, message, effects);
    tell(scene, Tone::Warning, "Failed", format!("Error: {word}"), effects);
}

/// A failed pull now waits.
pub(crate) fn tell_pull_waits(scene: &Scene<'_>, failure: &ImageFailure, effects: &mut Effects) {
    if matches!(failure, ImageFailure::Pull(_)) {
        let words = format!("Back-off pulling image \"{}\"", scene.container.image);
        tell(scene, Tone::Normal, "BackOff", words, effects);
        tell(scene, Tone::Warning, "Failed", "Error: ImagePullBackOff".to_string(), effects);
    }
}

/// A container waits before its next start.
pub(crate) fn tell_crash_loop(scene: &Scene<'_>, effects: &mut Effects) {
    let words = format!("Back-off restarting failed container {} in pod {}", scene.container.name, place(scene.pod));
    tell(scene, Tone::Warning, "BackOff", words, effects);
}

/// A volume of a pod cannot be laid out (VOL-01).
pub(crate) fn tell_mount_failed(pod: &Pod, words: String, effects: &mut Effects) {
    effects.tell(pod.uid, "", Tone::Warning, "FailedMount", words);
}

/// How a kubelet words that a volume cannot be laid out.
pub(crate) fn mount_failure(volume: &str, why: &str) -> String {
    format!("MountVolume.SetUp failed for volume \"{volume}\" : {why}")
}

/// What a pull that failed just now shows.
pub(crate) fn pull_error(failure: &ImageFailure, image: &str) -> Waiting {
    match failure {
        ImageFailure::Pull(why) => ("ErrImagePull", why.clone()),
        ImageFailure::NeverPull => {
            ("ErrImageNeverPull", format!("Container image \"{image}\" is not present with pull policy of Never"))
        }
        ImageFailure::InvalidName(why) => {
            ("InvalidImageName", format!("Failed to apply default image tag \"{image}\": {why}"))
        }
    }
}

/// What a failed pull shows while it waits to be tried again, and while it is.
pub(crate) fn pull_waits(failure: &ImageFailure, image: &str) -> Waiting {
    match failure {
        ImageFailure::Pull(why) => {
            ("ImagePullBackOff", format!("Back-off pulling image \"{image}\": ErrImagePull: {why}"))
        }
        ImageFailure::NeverPull | ImageFailure::InvalidName(_) => pull_error(failure, image),
    }
}

/// What a container shows between two runs.
pub(crate) fn crash_loop(wait_ms: u64, pod: &Pod, container: &Container) -> Waiting {
    let (wait, name) = (backoff::words(wait_ms), &container.name);
    ("CrashLoopBackOff", format!("back-off {wait} restarting failed container={name} pod={}", place(pod)))
}

/// How a kubelet names a pod: `name_namespace(uid)`.
fn place(pod: &Pod) -> String {
    format!("{}_{}({})", pod.name, pod.namespace, pod.uid)
}
