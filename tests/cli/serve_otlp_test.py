#!/usr/bin/env python3
"""`tamis serve --otlp-endpoint` against collectors, good and bad ones. usage: serve_otlp_test.py TAMIS"""
import contextlib
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from serve_test import MODEL, TAMIS, Running

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BODY = {"prompt": "sesame", "max_tokens": 3, "ignore_eos": True, "temperature": 0}


class Collector:
    """Keeps (path, content type, body) of every POST and answers with the statuses given, then 200."""

    def __init__(self, statuses=(), port=0):
        self.posts, self.statuses, self.peers = [], list(statuses), set()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.peers.add(self.client_address)
                collector.posts.append((self.path, self.headers["content-type"], body))
                self.send_response(collector.statuses.pop(0) if collector.statuses else 200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def spans(self):
        found = []
        for _, _, body in self.posts:
            for resource in json.loads(body)["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    found += scope["spans"]
        return found


@contextlib.contextmanager
def hostile(answer):
    """A collector that reads a request, calls answer(connection), and goes on."""
    listening = socket.create_server(("127.0.0.1", 0))
    seen = []

    def serve():
        while True:
            try:
                connection = listening.accept()[0]
            except OSError:
                return
            seen.append(connection)
            with contextlib.suppress(OSError):
                answer(connection)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", seen
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for connection in seen:
            connection.close()


def read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    length = int(re.search(rb"(?i)content-length: (\d+)", data).group(1))
    body = data.split(b"\r\n\r\n", 1)[1]
    while len(body) < length:
        body += connection.recv(65536)
    return body


def eventually(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def figure(server, name, reason=""):
    return int(re.search(rf"^tamis_trace_spans_{name}_total{{.*{reason}.*}} (\d+)$", server.ask("/metrics")[1], re.M).group(1))


class OtlpTest(unittest.TestCase):
    def generate(self, server, headers=None):
        status, text = server.ask("/v1/completions", BODY, headers)
        self.assertEqual(status, 200, text)
        return json.loads(text)["choices"][0]["text"]

    def end(self, server):
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(60), 0)

    def test_a_collector_gets_spans(self):
        with Collector() as collector, Running("--otlp-endpoint", collector.url) as server:
            for _ in range(3):
                self.generate(server, {"traceparent": PARENT})
            self.end(server)
            self.assertEqual({post[:2] for post in collector.posts}, {("/v1/traces", "application/json")})
            self.assertEqual(len(collector.peers), 1, "one connection")
            spans = collector.spans()
            self.assertEqual([span["name"] for span in spans], 3 * ["text_completion cli_tiny", "queue", "prefill", "decode"])
            self.assertEqual({span["traceId"] for span in spans}, {PARENT.split("-")[1]})
            self.assertEqual({span["parentSpanId"] for span in spans if span["kind"] == 2}, {PARENT.split("-")[2]})
            self.assertEqual(len({span["spanId"] for span in spans}), 12)
            now = time.time()
            for span in spans:
                self.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
                self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
                self.assertLess(abs(now - int(span["endTimeUnixNano"]) / 1e9), 3600)
            self.assertNotIn(b"sesame", b"".join(post[2] for post in collector.posts))
            self.assertNotIn("warning", server.text())

    def test_a_collector_that_is_away_and_comes_back(self):
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            port = reserved.getsockname()[1]
        with Running("--otlp-endpoint", f"http://127.0.0.1:{port}/some/path/") as server:
            self.generate(server)
            self.assertTrue(eventually(lambda: "traces are not taken" in server.text()))
            self.generate(server)
            with Collector([503, 429], port) as collector:
                self.assertTrue(eventually(lambda: figure(server, "sent") == 8))
                self.assertEqual({post[0] for post in collector.posts}, {"/some/path/v1/traces"})
                self.assertEqual(collector.posts[0], collector.posts[1])
                self.end(server)
            self.assertEqual(server.text().count("traces are not taken"), 1, server.text())

    def test_what_a_collector_refuses_is_counted(self):
        with Collector([400, 302]) as collector, Running("--otlp-endpoint", collector.url + "/v1/traces") as server:
            self.generate(server)
            self.assertTrue(eventually(lambda: figure(server, "dropped", "rejected") == 4))
            self.generate(server)
            self.assertTrue(eventually(lambda: figure(server, "dropped", "rejected") == 8))
            self.generate(server)
            self.assertTrue(eventually(lambda: figure(server, "sent") == 4))
            self.assertEqual(len(collector.posts), 3)
            self.assertEqual({post[0] for post in collector.posts}, {"/v1/traces"})
            self.assertEqual(server.text().count("traces are not taken"), 1, server.text())

    def test_no_collector_disturbs_an_answer(self):
        def endless(connection):
            read_request(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                connection.sendall(65536 * b"x")

        def headers(connection):
            read_request(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                connection.sendall(1000 * b"x-header: value\r\n")

        def closes(connection):
            read_request(connection)
            connection.close()

        def nonsense(connection):
            read_request(connection)
            connection.sendall(bytes(range(256)) * 100)
            connection.close()

        with Running() as server:
            expected = self.generate(server)
        for name, answer in (("silent", lambda connection: None), ("endless", endless), ("headers", headers), ("closes", closes),
                             ("nonsense", nonsense)):
            with self.subTest(name), hostile(answer) as (url, seen), Running("--otlp-endpoint", url) as server:
                self.assertEqual(self.generate(server), expected)
                self.assertTrue(eventually(lambda seen=seen: seen))
                for _ in range(3):
                    self.assertEqual(self.generate(server), expected)
                self.end(server)

    def test_one_thread_more_and_only_when_asked(self):
        def n_threads(server):
            self.generate(server)
            return len(os.listdir(f"/proc/{server.process.pid}/task"))

        with Running() as server:
            before = n_threads(server)
        with Collector() as collector, Running("--otlp-endpoint", collector.url) as server:
            self.assertEqual(n_threads(server), before + 1)
            self.assertTrue(eventually(lambda: collector.posts))
            self.assertEqual(n_threads(server), before + 1)

    def test_the_option_in_files_and_its_mistakes(self):
        with Collector() as collector, tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
            config.write(f"otlp-endpoint = {collector.url}\n")
            config.flush()
            with Running("--config", config.name) as server:
                self.generate(server)
                self.end(server)
            self.assertEqual(len(collector.spans()), 4)
        for url in ("", "localhost:4318", "ftp://h/", "http://", "http://user:secret@host/", "http://h/?a=b", "http://h/#a", "http://h:99999"):
            done = subprocess.run([TAMIS, "serve", "-m", MODEL, "--port", "0", "--otlp-endpoint", url], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, url)
            self.assertIn("--otlp-endpoint", done.stderr)
            self.assertNotIn("secret", done.stderr)


if __name__ == "__main__":
    unittest.main()
