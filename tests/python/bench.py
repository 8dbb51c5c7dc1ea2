"""Times pods from the request that creates them to the watch event that says Running, one after another.

    bench.py KUBECONFIG [PODS]
"""

import statistics
import sys
import threading
import time

from kubernetes import client, config, watch

PODS = int(sys.argv[2]) if len(sys.argv) > 2 else 100
IMAGES = ["samples/sensor:1", "samples/hello:1", "samples/job:1"]

config.load_kube_config(config_file=sys.argv[1])
core = client.CoreV1Api()
running = {}
hopeless = {}
arrived = threading.Condition()


def trouble(pod):
    """Why a pod will not run soon; None while there is hope."""
    for status in pod.status.container_statuses or []:
        waiting = status.state and status.state.waiting
        if waiting and waiting.reason not in (None, "ContainerCreating", "PodInitializing"):
            return f"{waiting.reason}: {waiting.message}"
    if pod.status.phase == "Failed":
        return f"it has failed: {pod.status.reason}: {pod.status.message}"
    return None


def listen():
    for event in watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=600):
        pod = event["object"]
        with arrived:
            if pod.status.phase == "Running":
                running.setdefault(pod.metadata.name, time.monotonic())
            elif trouble(pod):
                hopeless[pod.metadata.name] = trouble(pod)
            arrived.notify_all()


def node_is_ready():
    """Waits for a node that takes pods; an agent that the controller does not understand never makes one."""
    deadline, seen = time.monotonic() + 15, "no agent has joined; its own words are above"
    while time.monotonic() < deadline:
        for node in core.list_node().items:
            ready = next((c for c in node.status.conditions or [] if c.type == "Ready"), None)
            if ready and ready.status == "True":
                return
            seen = f"node {node.metadata.name}: {ready.reason}: {ready.message}" if ready else "a node without conditions"
        time.sleep(0.1)
    raise SystemExit(f"no node is Ready: {seen} (are agent and controller built from the same source?)")


def why_not(name):
    pod = core.read_namespaced_pod(name, "default")
    said = [f"{c.type}={c.status} {c.reason or ''} {c.message or ''}".strip() for c in pod.status.conditions or []]
    events = [f"{e.reason}: {e.message}" for e in core.list_namespaced_event("default").items
              if e.involved_object.name == name]
    return "\n  ".join([f"{name} on {pod.spec.node_name}: {pod.status.phase}", *said, *events])


node_is_ready()
threading.Thread(target=listen, daemon=True).start()


def one(number, image=IMAGES[0]):
    name = f"bench-{number}"
    container = client.V1Container(name="main", image=image)
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1PodSpec(containers=[container], restart_policy="Never", termination_grace_period_seconds=1),
    )
    started = time.monotonic()
    core.create_namespaced_pod("default", pod)
    answered = time.monotonic()
    with arrived:
        came = arrived.wait_for(lambda: name in running or name in hopeless, timeout=60)
    if name not in running:
        what = hopeless.get(name) if came else f"it is not Running within 60 s\n  {why_not(name)}"
        raise SystemExit(f"{name}: {what}")
    core.delete_namespaced_pod(name, "default")
    return 1000 * (answered - started), 1000 * (running[name] - started)


first = sorted(one(f"first-{number}", image)[1] for number, image in enumerate(IMAGES))
what = "first pod of an image: create -> Running"
print(f"| {what} | {statistics.median(first):.1f} ms | {first[0]:.1f} to {first[-1]:.1f} | n={len(first)} |")
times = [one(number) for number in range(PODS)]
for what, values in (("create answered", [t[0] for t in times]), ("create -> Running, image cached", [t[1] for t in times])):
    values.sort()
    p50, p99 = statistics.median(values), values[int(0.99 * (len(values) - 1))]
    print(f"| {what} | p50 {p50:.1f} ms, p99 {p99:.1f} ms | {values[0]:.1f} to {values[-1]:.1f} | n={len(values)} |")
