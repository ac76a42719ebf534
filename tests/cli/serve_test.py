#!/usr/bin/env python3
"""`tamis serve` as a program: what it says when ready, how it ends on signals, what it refuses to do. usage: serve_test.py TAMIS"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

TAMIS = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
MODEL = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/cli_tiny.gguf"
LONG = {"prompt": "once", "max_tokens": 400, "ignore_eos": True, "stream": True, "temperature": 0}


class Running:
    """A server on a free port; its stderr goes to a file."""

    def __init__(self, *options, program=None):
        self.log = tempfile.NamedTemporaryFile("r", suffix=".log")
        words = program or [str(TAMIS), "serve"]
        with open(self.log.name, "w") as stderr:
            self.process = subprocess.Popen([*words, "-m", str(MODEL), "--port", "0", *options], stderr=stderr, stdout=subprocess.PIPE)
        deadline = time.monotonic() + 60
        found = None
        while found is None and time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"^tamis: listening on (\S+)$", self.text(), re.M)
            time.sleep(0.02)
        assert found, self.text()
        self.url = found.group(1)
        self.port = int(self.url.rsplit(":", 1)[1]) if self.url.startswith("http") else 0

    def text(self):
        return pathlib.Path(self.log.name).read_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def ask(self, path, body=None, headers=None):
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def stream(self, body):
        """A socket on which a stream has begun."""
        text = json.dumps(body)
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        assert b"200 OK" in connection.recv(4096)
        return connection


def rest_of(connection):
    data = b""
    with connection:
        while chunk := connection.recv(65536):
            data += chunk
    return data


class ServeTest(unittest.TestCase):
    def test_answers_and_ends_with_zero(self):
        with Running() as server:
            self.assertEqual(server.ask("/health"), (200, '{"status":"ok"}\n'))
            status, text = server.ask("/v1/completions", {"prompt": "hi", "max_tokens": 3, "ignore_eos": True})
            self.assertEqual(status, 200, text)
            self.assertEqual(json.loads(text)["usage"]["completion_tokens"], 3)
            self.assertEqual(json.loads(text)["model"], "cli_tiny")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 0)
            self.assertNotIn("warning", server.text())

    def test_a_signal_lets_streams_end(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Running("--drain-timeout", "60") as server:
                connection = server.stream({**LONG, "max_tokens": 100})
                server.process.send_signal(number)
                self.assertIn(b"[DONE]", rest_of(connection))
                self.assertEqual(server.process.wait(60), 0)

    def test_a_stream_that_does_not_end_is_ended(self):
        with Running("-c", "0", "--drain-timeout", "0") as server:
            connections = [server.stream(LONG) for _ in range(3)]
            server.process.send_signal(signal.SIGTERM)
            for connection in connections:
                last = rest_of(connection)
                self.assertTrue(b"[DONE]" in last and last.endswith(b"0\r\n\r\n"), last[-200:])
            self.assertEqual(server.process.wait(60), 0)

    def test_threads_and_descriptors_stay(self):
        with Running("--max-connections-per-ip", "0") as server:
            def count():
                return tuple(len(os.listdir(f"/proc/{server.process.pid}/{what}")) for what in ("task", "fd"))

            server.ask("/v1/completions", {"prompt": "hi", "max_tokens": 1})
            time.sleep(0.2)
            before = count()
            slow = []
            for _ in range(200):
                connection = socket.create_connection(("127.0.0.1", server.port))
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
                slow.append(connection)
            self.assertEqual(server.ask("/health")[0], 200)
            self.assertEqual(count()[0], before[0])
            for connection in slow:
                connection.close()
            deadline = time.monotonic() + 30
            while count() != before and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(count(), before)

    def test_other_addresses_need_a_key(self):
        refused = subprocess.run([TAMIS, "serve", "-m", MODEL, "--host", "0.0.0.0", "--port", "0"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--api-key-file", refused.stderr)
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("sesame\n")
            keys.flush()
            with Running("--host", "0.0.0.0", "--api-key-file", keys.name) as server:
                server.url = f"http://127.0.0.1:{server.port}"
                self.assertEqual(server.ask("/v1/models")[0], 401)
                self.assertEqual(server.ask("/v1/models", headers={"Authorization": "Bearer sesame"})[0], 200)

    def test_one_model_file_may_be_missing(self):
        failed = subprocess.run([TAMIS, "serve", "-m", "nothing.gguf", "--port", "0"], capture_output=True, text=True)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("nothing.gguf", failed.stderr)

    def test_llama_server_is_a_name_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            link = pathlib.Path(folder) / "llama-server"
            link.symlink_to(TAMIS)
            with Running("-np", "2", "-c", "64", program=[str(link)]) as server:
                props = json.loads(server.ask("/props")[1])
                self.assertEqual((props["total_slots"], props["default_generation_settings"]["n_ctx"]), (2, 64))

    def test_a_unix_socket_is_an_address(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/socket"
            with Running("--host", f"unix:{path}") as server:
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(path)
                    connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                    self.assertIn(b"200 OK", rest_of(connection))
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(60), 0)
            self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
