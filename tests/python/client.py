"""Drives the API with the Python `kubernetes` client: create, list, watch, patch, conflict, delete."""

import sys

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

config.load_kube_config(config_file=sys.argv[1])
core = client.CoreV1Api()
apps = client.AppsV1Api()

labels = {"app": "python"}
container = client.V1Container(name="hello", image="samples/hello:1")
template = client.V1PodTemplateSpec(
    metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
)
spec = client.V1DeploymentSpec(replicas=2, selector=client.V1LabelSelector(match_labels=labels), template=template)
deployment = client.V1Deployment(metadata=client.V1ObjectMeta(name="python"), spec=spec)
made = apps.create_namespaced_deployment("default", deployment)
assert made.metadata.uid and made.spec.strategy.type == "RollingUpdate", made

pods = core.list_namespaced_pod("default", label_selector="app=python")
ready = {pod.metadata.name for pod in pods.items if pod.status.phase == "Running"}
stream = watch.Watch()
for event in stream.stream(
    core.list_namespaced_pod,
    "default",
    label_selector="app=python",
    resource_version=pods.metadata.resource_version,
    timeout_seconds=60,
):
    pod = event["object"]
    if pod.status.phase == "Running":
        ready.add(pod.metadata.name)
    if len(ready) == 2:
        stream.stop()
assert len(ready) == 2, ready

scaled = apps.patch_namespaced_deployment_scale("python", "default", {"spec": {"replicas": 1}})
assert scaled.spec.replicas == 1, scaled

stale = apps.read_namespaced_deployment("python", "default")
apps.patch_namespaced_deployment("python", "default", {"metadata": {"labels": {"moved": "on"}}})
stale.metadata.resource_version = made.metadata.resource_version
try:
    apps.replace_namespaced_deployment("python", "default", stale)
    raise SystemExit("a stale write was accepted")
except ApiException as error:
    assert error.status == 409, error

try:
    core.read_namespaced_pod("nobody", "default")
    raise SystemExit("a pod that is not there was found")
except ApiException as error:
    assert error.status == 404, error

apps.delete_namespaced_deployment("python", "default", propagation_policy="Foreground")
for event in watch.Watch().stream(apps.list_namespaced_deployment, "default", timeout_seconds=60):
    if event["type"] == "DELETED" and event["object"].metadata.name == "python":
        break
assert not core.list_namespaced_pod("default", label_selector="app=python").items
print("all good")
