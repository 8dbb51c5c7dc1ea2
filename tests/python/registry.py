"""A registry that is spoken to over TLS and behaves as its repositories are called, behind a proxy that leads every host
name to this machine.

    registry.py CERTIFICATE KEY WASM

Prints "ready TLS_PORT PROXY_PORT", and then a line for each connection of the proxy and each request:

    connect HOST:PORT
    METHOD HOST PATH AUTHORIZATION

Every repository has the tag "1":

    NAME            an honest one
    private         it opens to a token that auth.docker.io gives to sailor with the password "open sesame"
    brief           so does this, and each token is good for two requests
    moved           so does this, and its blob is at another host, which answers 400 to a request with Authorization
    another         other bytes than the digest says
    endless         a blob that never ends
    large           a manifest of 100 MB
    circle          a blob that leads to itself
    clear           a blob that leads to plain HTTP elsewhere
    inside          a blob that leads to plain HTTP on the loopback
    mute            no answer at all
    rude            an error that is a long page of HTML with control characters
"""

import base64
import hashlib
import http.server
import itertools
import json
import select
import socket
import socketserver
import ssl
import sys
import threading
import urllib.parse

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
REALM = 'Bearer realm="https://auth.docker.io/token",service="registry.docker.io"'
SAILOR = "Basic " + base64.b64encode(b"sailor:open sesame").decode()

with open(sys.argv[3], "rb") as file:
    WASM = file.read()
LAYER = "sha256:" + hashlib.sha256(WASM).hexdigest()
DESCRIPTOR = {"mediaType": "application/wasm", "digest": LAYER, "size": len(WASM)}
CONFIG = {"mediaType": "application/vnd.wasm.config.v0+json", "digest": "sha256:" + "0" * 64, "size": 2}

lock = threading.Lock()
uses = {}
tokens = itertools.count()


def image(house):
    """A manifest of its own for each repository, so that none is known from another one."""
    return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": CONFIG, "layers": [DESCRIPTOR],
                       "annotations": {"house": house}}).encode()


def say(*words):
    with lock:
        print(*words, flush=True)


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        url = urllib.parse.urlsplit(self.path)
        shown = self.headers.get("Authorization", "-")
        say(self.command, self.headers["Host"], url.path, shown.split(" ")[0])
        if url.path == "/token":
            return self.token(urllib.parse.parse_qs(url.query), shown)
        if url.path.startswith("/storage/"):
            return self.bytes(WASM) if shown == "-" else self.error(400, "only one way to sign, please")
        repository, kind, _ = url.path.removeprefix("/v2/").rsplit("/", 2)
        house = repository.split("/")[-1]
        if house in ("private", "brief", "moved") and not self.may_enter(shown, house):
            words = {"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}
            scope = ',scope="repository:%s:pull"' % repository
            return self.bytes(json.dumps(words).encode(), 401, {"WWW-Authenticate": REALM + scope})
        if kind == "manifests":
            return self.manifest(house)
        return self.blob(house, repository)

    def token(self, query, shown):
        house = query["scope"][0].split(":")[1].split("/")[-1]
        if query["service"] != ["registry.docker.io"]:
            return self.error(400, "another service")
        if shown != SAILOR:
            return self.error(401, "incorrect username or password")
        token = "%s-%d" % (house, next(tokens))
        uses[token] = 2 if house == "brief" else 1000
        return self.bytes(json.dumps({"token": token, "expires_in": 300}).encode())

    def may_enter(self, shown, house):
        token = shown.removeprefix("Bearer ")
        left = uses.get(token, 0)
        uses[token] = left - 1
        return token.startswith(house) and left > 0

    def manifest(self, house):
        if house == "mute":
            threading.Event().wait()
        if house == "rude":
            return self.bytes(b"<html>" + b"\x1b[31m" * 500, 502, {"Content-Type": "text/html"})
        if house == "large":
            return self.endless(100)
        digest = "sha256:" + hashlib.sha256(image(house)).hexdigest()
        return self.bytes(image(house), 200, {"Docker-Content-Digest": digest, "Content-Type": MANIFEST})

    def blob(self, house, repository):
        places = {
            "moved": "https://storage.example.com/storage/" + LAYER + "?signature=hush",
            "circle": self.path,
            "clear": "http://storage.example.com/storage/" + LAYER + "?signature=hush",
            "inside": "http://127.0.0.1:1/storage/" + LAYER + "?signature=hush",
        }
        if house in places:
            return self.bytes(b"", 307, {"Location": places[house]})
        if house == "another":
            return self.bytes(bytes(len(WASM)))
        if house == "endless":
            return self.endless(1 << 20)
        return self.bytes(WASM)

    def endless(self, mebibytes):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for _ in range(mebibytes if self.command == "GET" else 0):
                self.wfile.write(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
        except OSError:
            say("hung up on", self.path.split("/")[2])
        self.close_connection = True

    def error(self, code, message):
        self.bytes(json.dumps({"errors": [{"message": message}], "details": message}).encode(), code)

    def bytes(self, body, code=200, headers={}):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Proxy(socketserver.StreamRequestHandler):
    def handle(self):
        method, target, _ = self.rfile.readline().decode().split(" ", 2)
        while self.rfile.readline().strip():
            pass
        say(method.lower(), target)
        host, port = target.rsplit(":", 1)
        port = registry.server_address[1] if port == "443" else int(port)
        try:
            there = socket.create_connection(("127.0.0.1", port))
        except OSError:
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        here = self.connection
        try:
            while True:
                for ready in select.select([here, there], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    (there if ready is here else here).sendall(data)
        except OSError:
            pass
        finally:
            there.close()


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


class Secure(Server):
    def finish_request(self, request, client_address):
        # The handshake is the handler's own business: whoever does not like the certificate holds nobody up.
        super().finish_request(context.wrap_socket(request, server_side=True), client_address)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
registry = Secure(("127.0.0.1", 0), Registry)
proxy = Server(("127.0.0.1", 0), Proxy)
for server in (registry, proxy):
    threading.Thread(target=server.serve_forever, daemon=True).start()
say("ready", registry.server_address[1], proxy.server_address[1])
threading.Event().wait()
