"""Makes an OCI layout of one image with one layer.

    oci.py DIRECTORY MEDIA_TYPE FILE [os/architecture]

With a platform it is an index of that image and one for linux/amd64. A layer of a media type with "tar" in it is an
archive with the file in it; with "gzip" in it, it is compressed. Prints the digest of the manifest or the index.
"""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def packed(media, path):
    with open(path, "rb") as file:
        data = file.read()
    if "tar" in media:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo("app/main.wasm")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        data = archive.getvalue()
    if "gzip" in media:
        data = gzip.compress(data, mtime=0)
    return data


def layout(directory, media, path, platform=None):
    blobs = os.path.join(directory, "blobs", "sha256")
    os.makedirs(blobs, exist_ok=True)

    def blob(kind, data):
        name = hashlib.sha256(data).hexdigest()
        with open(os.path.join(blobs, name), "wb") as file:
            file.write(data)
        return {"mediaType": kind, "digest": "sha256:" + name, "size": len(data)}

    def image(config_kind, config, layer):
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blob(config_kind, json.dumps(config).encode()),
            "layers": [layer],
        }
        return blob(MANIFEST, json.dumps(manifest).encode())

    layer = blob(media, packed(media, path))
    if "tar" in media:
        config = {"architecture": "wasm", "os": "wasip1", "config": {"Entrypoint": ["/app/main.wasm"]},
                  "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
        ours = image("application/vnd.oci.image.config.v1+json", config, layer)
    else:
        config = {"created": "2026-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip2",
                  "layerDigests": [layer["digest"]]}
        ours = image("application/vnd.wasm.config.v0+json", config, layer)
    manifests = [ours]
    if platform:
        system, architecture = platform.split("/")
        other = image("application/vnd.oci.image.config.v1+json", {"architecture": "amd64", "os": "linux"},
                      blob("application/vnd.oci.image.layer.v1.tar", b"no archive"))
        other["platform"] = {"os": "linux", "architecture": "amd64"}
        ours["platform"] = {"os": system, "architecture": architecture}
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [other, ours]}
        manifests = [blob(INDEX, json.dumps(index).encode())]
    with open(os.path.join(directory, "oci-layout"), "w") as file:
        json.dump({"imageLayoutVersion": "1.0.0"}, file)
    with open(os.path.join(directory, "index.json"), "w") as file:
        json.dump({"schemaVersion": 2, "manifests": manifests}, file)
    print(manifests[0]["digest"])


if __name__ == "__main__":
    layout(*sys.argv[1:])
