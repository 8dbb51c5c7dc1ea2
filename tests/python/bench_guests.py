"""What guests cost a node, seen through the API and, for the agent's process, through /proc.

    bench_guests.py KUBECONFIG AGENT_PID limits
    bench_guests.py KUBECONFIG AGENT_PID density IMAGE
    bench_guests.py KUBECONFIG AGENT_PID logs

The images below bench/ are pushed before. Each prints rows: median, least and most.
"""

import os
import re
import statistics
import sys
import threading
import time

import urllib3
from kubernetes import client, config

PATIENCE = 120
# Processor limits in thousandths of a core, and how often and for how long they are watched.
LIMITS = [50, 250, 1000]
NEIGHBOURS = 8
ROUNDS = 3
ROUND_SECONDS = 10
# Pods on one agent at which its memory is read, and how long they are then watched.
STEPS = [250, 500, 1000]
SETTLE_SECONDS = 3
IDLE_SECONDS = 30
FOLLOWERS = 50
FLOOD_SECONDS = 5

settings = client.Configuration()
config.load_kube_config(config_file=sys.argv[1], client_configuration=settings)
api = client.ApiClient(settings)
core, apps, leases = client.CoreV1Api(api), client.AppsV1Api(api), client.CoordinationV1Api(api)
# For what is read as it comes, and for paths that some clients write in another way.
raw = urllib3.PoolManager(
    maxsize=2 * FOLLOWERS, ca_certs=settings.ssl_ca_cert, cert_file=settings.cert_file, key_file=settings.key_file
)
pid = int(sys.argv[2])


def row(what, values, unit):
    values = sorted(values)
    median = statistics.median(values)
    digits = 2 if abs(median) < 10 else 1
    least, most = f"{values[0]:.{digits}f}", f"{values[-1]:.{digits}f}"
    print(f"| {what} | {median:.{digits}f} {unit} | {least} to {most} | n={len(values)} |", flush=True)


def until(what, ready):
    deadline = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > deadline:
            raise SystemExit(f"after {PATIENCE} s not yet: {what}")
        time.sleep(0.05)


def pss_kb():
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return int(re.search(r"^Pss:\s+(\d+)", file.read(), re.M).group(1))


def cpu_seconds():
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def counters():
    """The moment, and the counters of every pod: two numbers of one sample, which the summary alone does not have."""
    before = time.monotonic()
    answer = raw.request("GET", settings.host + "/api/v1/nodes/node-1/proxy/metrics/cadvisor")
    moment = (before + time.monotonic()) / 2
    text = answer.data.decode()
    if answer.status != 200:
        raise SystemExit(text)
    pods = {}
    for name, pod, value in re.findall(r'^(\w+)\{[^}]*pod="([^"]+)"[^}]*\} (\S+)$', text, re.M):
        pods.setdefault(pod, {})[name] = float(value)
    return moment, pods


def create(name, image, **container):
    main = client.V1Container(name="main", image=image, **container)
    spec = client.V1PodSpec(containers=[main], restart_policy="Never", termination_grace_period_seconds=1)
    core.create_namespaced_pod("default", client.V1Pod(metadata=client.V1ObjectMeta(name=name), spec=spec))


def all_run(count):
    def ready():
        pods = core.list_namespaced_pod("default").items
        return len(pods) == count and all(pod.status.phase == "Running" for pod in pods)

    until(f"{count} pods are Running", ready)


def limits():
    for number in range(NEIGHBOURS):
        create(f"neighbour-{number}", "bench/spin:1")
    for limit in LIMITS:
        create(f"limited-{limit}", "bench/spin:1", resources=client.V1ResourceRequirements(limits={"cpu": f"{limit}m"}))
    all_run(NEIGHBOURS + len(LIMITS))
    # What a limit allows at once at the start has passed by then.
    time.sleep(SETTLE_SECONDS)
    samples, spent = [counters()], [cpu_seconds()]
    for _ in range(ROUNDS):
        time.sleep(ROUND_SECONDS)
        samples.append(counters())
        spent.append(cpu_seconds())
    # Guests share what the agent has: with less than the limits come to, the machine is what is measured.
    had = [(end - begin) / ROUND_SECONDS for begin, end in zip(spent, spent[1:])]
    row(f"the agent, which needs {sum(LIMITS) / 1000} for the limits below", had, "cores")

    def rates(pod, name):
        pairs = zip(samples, samples[1:])
        return [(after[pod][name] - before[pod][name]) / (end - begin) for (begin, before), (end, after) in pairs]

    used, held = "container_cpu_usage_seconds_total", "container_cpu_cfs_throttled_seconds_total"
    for limit in LIMITS:
        shares = rates(f"limited-{limit}", used)
        what = f"CPU limit {limit}m beside {NEIGHBOURS} spinning neighbours"
        row(f"{what}, over {ROUND_SECONDS} s: error", [100 * (share / (limit / 1000) - 1) for share in shares], "%")
        row(f"{what}: held back, of the time", [100 * rate for rate in rates(f"limited-{limit}", held)], "%")
    neighbours = [share for number in range(NEIGHBOURS) for share in rates(f"neighbour-{number}", used)]
    row("one such neighbour", neighbours, "cores")


def density(image):
    # The smallest guest waits for its input to end.
    main = client.V1Container(name="main", image=image, stdin=True)
    labels = {"app": "density"}
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[main], termination_grace_period_seconds=1),
    )
    spec = client.V1DeploymentSpec(replicas=0, selector=client.V1LabelSelector(match_labels=labels), template=template)
    apps.create_namespaced_deployment(
        "default", client.V1Deployment(metadata=client.V1ObjectMeta(name="density"), spec=spec)
    )
    time.sleep(SETTLE_SECONDS)
    counts, sizes, seconds = [0], [pss_kb()], 0
    for count in STEPS:
        started = time.monotonic()
        apps.patch_namespaced_deployment_scale("density", "default", {"spec": {"replicas": count}})
        ready = lambda: apps.read_namespaced_deployment("density", "default").status.ready_replicas == count
        until(f"{count} pods are ready", ready)
        seconds += time.monotonic() - started
        time.sleep(SETTLE_SECONDS)
        counts.append(count)
        sizes.append(pss_kb())
    steps = ", ".join(f"{count}: {size / 1024:.1f} MB" for count, size in zip(counts, sizes))
    print(f"| {image}, agent's PSS by pods | {steps} | | |", flush=True)
    row(f"{image}, PSS a pod (slope)", [statistics.linear_regression(counts, sizes).slope], "kB")
    row(f"{image}, {STEPS[-1]} pods are ready after", [seconds], "s")
    before = cpu_seconds()
    time.sleep(IDLE_SECONDS)
    used = cpu_seconds() - before
    row(f"{image}, agent with {STEPS[-1]} pods for {IDLE_SECONDS} s, CPU of one core", [100 * used / IDLE_SECONDS], "%")


def logs():
    create("flood", "bench/misbehave:1", command=["misbehave", "flood"])
    all_run(1)
    time.sleep(SETTLE_SECONDS)

    def watched():
        """Cores of the agent and of the guest in it."""
        begin, cpu, before = time.monotonic(), cpu_seconds(), counters()
        time.sleep(FLOOD_SECONDS)
        agent, after = (cpu_seconds() - cpu) / (time.monotonic() - begin), counters()
        name = "container_cpu_usage_seconds_total"
        return agent, (after[1]["flood"][name] - before[1]["flood"][name]) / (after[0] - before[0])

    alone = watched()
    read = [0] * FOLLOWERS

    def follow(number):
        path = "/api/v1/namespaces/default/pods/flood/log?follow=true"
        log = raw.request("GET", settings.host + path, preload_content=False)
        for piece in log.stream(65536):
            read[number] += len(piece)

    for number in range(FOLLOWERS):
        threading.Thread(target=follow, args=[number], daemon=True).start()
    until("every follower has read something", lambda: all(read))
    renewed = lambda: leases.read_namespaced_lease("node-1", "kube-node-lease").spec.renew_time
    last, begin, before = renewed(), time.monotonic(), list(read)
    agent, guest = watched()
    seconds = time.monotonic() - begin
    speeds = [(after - early) / seconds / 1e6 for early, after in zip(before, read)]
    what = f"flooded log with {FOLLOWERS} followers for {FLOOD_SECONDS} s"
    row("flooded log without followers: CPU of the agent", [alone[0]], "cores")
    row("flooded log without followers: of it, the guest's", [alone[1]], "cores")
    row(f"{what}: CPU of the agent", [agent], "cores")
    row(f"{what}: of it, the guest's", [guest], "cores")
    row(f"{what}: read by all", [sum(speeds)], "MB/s")
    row(f"{what}: read by one", speeds, "MB/s")
    until("the node's lease is renewed under the flood", lambda: renewed() > last)
    row("until the lease was renewed again, with the followers there", [(renewed() - last).total_seconds()], "s")
    conditions = {condition.type: condition.status for condition in core.read_node("node-1").status.conditions}
    if conditions["Ready"] != "True":
        raise SystemExit(f"the node is not Ready under the flood: {conditions}")


{"limits": limits, "density": density, "logs": logs}[sys.argv[3]](*sys.argv[4:])
# Followers still read, and nobody waits for them.
sys.stdout.flush()
os._exit(0)
