//! How a run that is over is shown: exit code, signal, reason and message (LIF-10).

use alloc::format;
use alloc::string::{String, ToString};

use coracle_model::{Container, Millis, RestartPolicy, Terminated};

use crate::event::Exit;

/// Exit code of what was killed: 128 and the signal's number.
const KILLED: i32 = 137;
/// Exit code of a trap, as after an abort.
const ABORTED: i32 = 134;
/// Exit code of what could not be started.
const CANNOT_START: i32 = 128;
/// The longest `message` of a run that is over (Kubernetes' bound of a termination message).
const LONGEST_MESSAGE_BYTES: usize = 4096;
/// The signal that nothing survives.
const SIGKILL: i32 = 9;

/// The `terminated` state of a run. `ordered` says that its end had been asked for.
pub(crate) fn terminated(
    exit: Exit,
    container: &Container,
    ordered: bool,
    (started_at, finished_at): (Millis, Millis),
    attempt: u32,
) -> Terminated {
    let (exit_code, signal, reason, mut message) = match exit {
        Exit::Code(0) => (0, 0, "Completed", String::new()),
        Exit::Code(code) => (code, 0, "Error", format!("exited with code {code}")),
        Exit::Trapped(trap) => (ABORTED, 0, "Error", trap),
        Exit::Killed if ordered => {
            (KILLED, SIGKILL, "Error", "killed: it had not ended within its grace period".to_string())
        }
        Exit::Killed => (KILLED, SIGKILL, "Error", "killed".to_string()),
        Exit::OutOfMemory => (KILLED, 0, "OOMKilled", over_memory(container.limits.memory_bytes)),
        Exit::NodeOutOfMemory => (KILLED, 0, "OOMKilled", NODE_OVER_MEMORY.to_string()),
        Exit::CannotStart(why) => (CANNOT_START, 0, "StartError", why),
    };
    message.truncate(message.floor_char_boundary(LONGEST_MESSAGE_BYTES));
    Terminated { exit_code, signal, reason: reason.to_string(), message, started_at, finished_at, attempt }
}

/// Why the container that asked for it ended, and no other.
const NODE_OVER_MEMORY: &str =
    "the node is out of memory: the container wanted more than the pods of this node may use together";

fn over_memory(limit_bytes: u64) -> String {
    if limit_bytes == 0 {
        return "the container wanted more memory than there is".to_string();
    }
    format!("the container wanted more memory than its limit of {limit_bytes} bytes")
}

/// The `terminated` state of a container of a pod that ends before the container ever ran here, in Kubernetes' words.
/// It never had times of its own, so both are `now`.
pub(crate) fn never_ran(now: Millis) -> Terminated {
    Terminated {
        exit_code: KILLED,
        signal: 0,
        reason: "ContainerStatusUnknown".to_string(),
        message: "The container could not be located when the pod was terminated".to_string(),
        started_at: now,
        finished_at: now,
        attempt: 0,
    }
}

/// Whether a container that ended with this exit code starts again (LIF-04).
pub(crate) const fn restarts(policy: RestartPolicy, exit_code: i32) -> bool {
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => exit_code != 0,
        RestartPolicy::Never => false,
    }
}
