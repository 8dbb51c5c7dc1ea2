"""Creates config maps as fast as it is answered, for ever, and prints each one that was acknowledged.

A line is "acknowledged NAME RESOURCE-VERSION UID", written only when the whole answer has been read. Whatever fails, it goes
on with the next name: a name that was not acknowledged may or may not be there.
"""

import base64
import http.client
import json
import ssl
import sys
import tempfile
import time

import yaml

config = yaml.safe_load(open(sys.argv[1]))
prefix = sys.argv[2]
cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
host, port = cluster["server"].removeprefix("https://").rsplit(":", 1)
context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
with tempfile.NamedTemporaryFile() as pair:
    pair.write(base64.b64decode(user["client-certificate-data"]))
    pair.write(b"\n")
    pair.write(base64.b64decode(user["client-key-data"]))
    pair.flush()
    context.load_cert_chain(pair.name)

connection, number = None, 0
while True:
    number += 1
    name = f"{prefix}-{number}"
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"number": str(number)}})
    try:
        if connection is None:
            connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=20)
        connection.request("POST", "/api/v1/namespaces/default/configmaps", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status == 201:
            metadata = answer["metadata"]
            print("acknowledged", name, metadata["resourceVersion"], metadata["uid"], flush=True)
    except (OSError, http.client.HTTPException, ValueError):
        connection = None
        # Nobody listens for a moment: a kill is worth nothing while nobody writes, and neither is a full processor.
        time.sleep(0.01)
