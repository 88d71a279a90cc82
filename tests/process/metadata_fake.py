# SPDX-License-Identifier: Apache-2.0
"""The metadata services of Google, Amazon and Azure on loopback: their paths, headers, tokens, ETags
and error codes, what they announce when a test says so, and the trouble that a network makes.

usage: metadata_fake.py google|amazon|azure      for a person: prints its URL, and then does to it what
is typed: `preempt`, `clear`, `end`."""

import http.server
import json
import socket
import sys
import threading
import time
import urllib.parse


def rfc3339(unix_s):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_s))


def gmt(unix_s):
    """As Amazon writes it: the day without a zero in front."""
    now = time.gmtime(unix_s)
    return f"{now.tm_mday} " + time.strftime("%b %Y %H:%M:%S GMT", now)


def http_date(unix_s):
    now = time.gmtime(unix_s)
    return f"{('Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun')[now.tm_wday]}, " \
        f"{now.tm_mday:02} " + time.strftime("%b %Y %H:%M:%S GMT", now)


class Fake:
    """A server. `trouble`, if set, is called with the handler instead of an answer."""

    def __init__(self, clock_s=0):
        self.changed = threading.Condition()
        self.requests = []  # (method, path, headers, body)
        self.trouble = None
        self.status = None  # every answer is this error
        self.ended = False
        self.clock_s = clock_s  # how far its clock is ahead of everyone's
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def date_time_string(self, timestamp=None):
                return http_date(fake.now())

            def answer(self, status, body=b"", **headers):
                body = body.encode() if isinstance(body, str) else body
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def serve(self):
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size) if size else b""
                with fake.changed:
                    fake.requests.append((self.command, self.path, self.headers, body))
                    fake.changed.notify_all()
                try:
                    if fake.trouble:
                        self.close_connection = True
                        fake.trouble(self)
                    elif fake.status:
                        fake.refuse(self)
                    else:
                        fake.serve(self, urllib.parse.urlsplit(self.path))
                except OSError:  # it hung up
                    self.close_connection = True

            do_GET = do_PUT = do_POST = serve

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # it hung up

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = f"http://{self.address}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def now(self):
        return time.time() + self.clock_s

    def refuse(self, handler):
        handler.answer(self.status)

    def end(self):
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.end()

    def change(self, **fields):
        with self.changed:
            for name, value in fields.items():
                setattr(self, name, value)
            self.changed.notify_all()

    def wait_for(self, word, count=1, wait_s=30):
        """The count-th request whose path holds the word."""

        def found():
            return [one for one in self.requests if word in one[1]]

        with self.changed:
            assert self.changed.wait_for(lambda: len(found()) >= count, wait_s), \
                f"{len(found())} requests for {word}: {[one[:2] for one in self.requests]}"
            return found()[count - 1]


class Google(Fake):
    """Hangs while the key has the etag that the request names."""

    ROOT = "/computeMetadata/v1/instance/"
    NONE = '{"error": "no notifications have been received yet, try again later"}'

    def __init__(self, **options):
        super().__init__(**options)
        self.keys = {"preempted": "FALSE", "maintenance-event": "NONE",
                     "upcoming-maintenance": self.NONE}
        self.etags = dict.fromkeys(self.keys, 1)

    def set(self, key, value):
        with self.changed:
            self.keys[key] = value
            self.etags[key] += 1
            self.changed.notify_all()

    def etag(self, key):
        return f"{self.etags[key]:016x}"

    def refuse(self, handler):
        handler.answer(self.status, Metadata_Flavor="Google")

    def serve(self, handler, path):
        key = path.path.removeprefix(self.ROOT)
        query = dict(urllib.parse.parse_qsl(path.query))
        if handler.headers.get("Metadata-Flavor") != "Google":
            handler.answer(403)
            return
        if not path.path.startswith(self.ROOT) or key not in self.keys or self.keys[key] is None:
            handler.answer(404, Metadata_Flavor="Google")
            return
        with self.changed:
            if query.get("wait_for_change") == "true":
                self.changed.wait_for(
                    lambda: self.ended or self.trouble or self.status or
                    query.get("last_etag") != self.etag(key),
                    float(query.get("timeout_sec", 3600)))
            value, etag = self.keys[key], self.etag(key)
        if self.ended or self.trouble:
            handler.close_connection = True
            return  # closed in the middle of the wait
        if self.status:
            self.refuse(handler)
            return
        handler.answer(200, value, ETag=etag, Metadata_Flavor="Google",
                       Content_Type="application/text", Server="Metadata Server for VM")


class Amazon(Fake):
    """Version 2 only: nothing without a token."""

    HEADER = "X-aws-ec2-metadata-token"
    ACTION = "/latest/meta-data/spot/instance-action"
    REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
    SCHEDULED = "/latest/meta-data/events/maintenance/scheduled"
    LIFECYCLE = "/latest/meta-data/autoscaling/target-lifecycle-state"

    def __init__(self, **options):
        super().__init__(**options)
        self.items = {self.SCHEDULED: "[]", self.LIFECYCLE: "InService"}
        self.tokens = set()
        self.given = 0
        self.ttl_s = None  # shorter than what is asked for
        self.without = False  # version 1: no token is needed, and none is known
        self.drops_token = False  # as where the hop limit is too low for a container

    def set(self, path, value):
        with self.changed:
            self.items[path] = value

    def clear(self, path):
        with self.changed:
            self.items.pop(path, None)

    def forget_tokens(self):
        with self.changed:
            self.tokens.clear()

    def give_token(self, handler):
        ttl = handler.headers.get(f"{self.HEADER}-ttl-seconds", "")
        if not ttl.isdigit() or not 1 <= int(ttl) <= 21600:
            handler.answer(400)
            return
        with self.changed:
            self.given += 1
            token = f"AQAEA-fake_{self.given:02}=="
            self.tokens.add(token)
        handler.answer(200, token, X_aws_ec2_metadata_token_ttl_seconds=str(self.ttl_s or ttl))

    def serve(self, handler, path):
        if path.path == "/latest/api/token":
            if self.drops_token:
                with self.changed:
                    self.changed.wait_for(lambda: self.ended)
            elif handler.command != "PUT":
                handler.answer(405)
            elif self.without:
                handler.answer(404)
            else:
                self.give_token(handler)
            return
        with self.changed:
            known = self.without or handler.headers.get(self.HEADER) in self.tokens
            value = self.items.get(path.path)
        if not known:
            handler.answer(401)
        elif value is None:
            handler.answer(404)
        else:
            handler.answer(200, value, Server="EC2ws")


class Azure(Fake):
    """One document; `incarnation` grows with each change."""

    def __init__(self, name="trainer_12", **options):
        super().__init__(**options)
        self.name = name
        self.incarnation = 1
        self.events = {}
        self.posted = []

    def event(self, id_, type_, left_s=None, status="Scheduled", resources=("trainer_12",)):
        """left_s None: it has begun, and tells no time."""
        with self.changed:
            self.incarnation += 1
            self.events[id_] = {
                "EventId": id_, "EventType": type_, "EventStatus": status,
                "ResourceType": "VirtualMachine", "Resources": list(resources),
                "NotBefore": "" if left_s is None else http_date(self.now() + left_s),
                "Description": "", "EventSource": "Platform", "DurationInSeconds": -1}

    def gone(self, id_):
        with self.changed:
            self.incarnation += 1
            del self.events[id_]

    def serve(self, handler, path):
        query = dict(urllib.parse.parse_qsl(path.query))
        if handler.headers.get("Metadata") != "true" or "api-version" not in query:
            handler.answer(400)
        elif path.path == "/metadata/instance/compute/name":
            if self.name is None:
                handler.answer(500)
            else:
                handler.answer(200, self.name)
        elif path.path != "/metadata/scheduledevents":
            handler.answer(404)
        else:
            with self.changed:
                text = json.dumps({"DocumentIncarnation": self.incarnation,
                                   "Events": list(self.events.values())})
            handler.answer(200, text, Content_Type="application/json")


# ---- trouble ----

def close_in_the_middle(handler):
    handler.send_response(200)
    handler.send_header("Metadata-Flavor", "Google")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"TRUE")


def endless(handler):
    handler.send_response(200)
    handler.send_header("Metadata-Flavor", "Google")
    handler.end_headers()
    while True:  # until it hangs up
        handler.wfile.write(b"[" * 65536)


def endless_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.wfile.write(b"X-More: and more\r\n" * 1000)


def drip(handler):
    """One byte at a time, far slower than anybody waits for; until it hangs up."""
    handler.send_response(200)
    handler.send_header("Metadata-Flavor", "Google")
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.connection.settimeout(0.2)
    while True:
        handler.wfile.write(b" ")
        try:
            if handler.connection.recv(1) == b"":
                return
        except socket.timeout:
            pass


def no_answer(handler):
    """Until it hangs up."""
    handler.connection.settimeout(None)
    handler.connection.recv(1)


def garbage(handler):
    handler.wfile.write(b"\x00\xff\x01 this is no HTTP \r\n\r\n" * 10)


def redirect_to(url):
    def redirect(handler):
        handler.answer(302, "TRUE", Location=url, Metadata_Flavor="Google")

    return redirect


def portal(handler):
    """A page of whoever owns the network, for every question."""
    handler.answer(200, "<html>TRUE {} [] log in</html>", ETag="1")


def main():
    kinds = {"google": Google, "amazon": Amazon, "azure": Azure}
    if len(sys.argv) != 2 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    with kinds[sys.argv[1]]() as fake:
        print(fake.url, flush=True)
        for line in sys.stdin:
            word = line.strip()
            if word == "end":
                break
            if word not in ("preempt", "clear"):
                print("preempt, clear or end")
                continue
            preempt = word == "preempt"
            if isinstance(fake, Google):
                fake.set("preempted", "TRUE" if preempt else "FALSE")
            elif isinstance(fake, Azure):
                if preempt:
                    fake.event("0c0ffee0", "Preempt", left_s=60)
                elif "0c0ffee0" in fake.events:
                    fake.gone("0c0ffee0")
            elif preempt:
                fake.set(Amazon.ACTION, json.dumps({"action": "terminate",
                                                    "time": rfc3339(time.time() + 120)}))
            else:
                fake.clear(Amazon.ACTION)


if __name__ == "__main__":
    main()
