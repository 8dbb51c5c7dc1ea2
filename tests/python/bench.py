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
arrived = threading.Condition()


def listen():
    for event in watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=600):
        pod = event["object"]
        if pod.status.phase == "Running":
            with arrived:
                running.setdefault(pod.metadata.name, time.monotonic())
                arrived.notify_all()


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
        if not arrived.wait_for(lambda: name in running, timeout=60):
            raise SystemExit(f"{name} is not Running within 60 s")
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
