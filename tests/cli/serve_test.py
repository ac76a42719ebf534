#!/usr/bin/env python3
"""`tamis serve` as a program: what it says when ready, how it ends on signals, what it refuses to do. usage: serve_test.py TAMIS"""
import fcntl
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

TAMIS = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
MODEL = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/cli_tiny.gguf"
OTHER = MODEL.with_name("cli_tiny_b.gguf")
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
        self.tls = None

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
            with urllib.request.urlopen(request, timeout=60, context=self.tls) as answer:
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

    def test_models_that_do_not_fit_together_take_turns(self):
        with Running("-m", str(OTHER), "--ram-budget", "600K", "--max-connections-per-ip", "0") as server:
            def ask(model):
                status, text = server.ask("/v1/completions", {"prompt": "hi", "max_tokens": 3, "ignore_eos": True, "temperature": 0, "model": model})
                self.assertEqual(status, 200, text)
                return json.loads(text)["choices"][0]["text"]

            def loaded():
                return [model["name"] for model in json.loads(server.ask("/api/ps")[1])["models"]]

            self.assertEqual(loaded(), ["cli_tiny"])
            texts = {name: ask(name) for name in ("cli_tiny", "cli_tiny_b")}
            self.assertEqual(loaded(), ["cli_tiny_b"])
            n_threads = len(os.listdir(f"/proc/{server.process.pid}/task"))
            for _ in range(3):
                for name, text in texts.items():
                    self.assertEqual(ask(name), text)
            self.assertIn('tamis_model_unloads_total{model_name="cli_tiny"} 4', server.ask("/metrics")[1])
            self.assertEqual(len(os.listdir(f"/proc/{server.process.pid}/task")), n_threads)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 0)

    def test_a_broken_file_beside_others_is_its_own_clients_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder) / "broken.gguf"
            broken.write_bytes(OTHER.read_bytes()[:2000])
            with Running("-m", str(broken)) as server:
                self.assertIn("warning: model broken cannot be loaded now", server.text())
                status, text = server.ask("/v1/completions", {"prompt": "hi", "max_tokens": 1, "model": "broken"})
                self.assertEqual(status, 500)
                self.assertNotIn(folder, text)
                self.assertEqual(server.ask("/v1/completions", {"prompt": "hi", "max_tokens": 1})[0], 200)
                broken.write_bytes(OTHER.read_bytes())
                self.assertEqual(server.ask("/v1/completions", {"prompt": "hi", "max_tokens": 1, "model": "broken"})[0], 200)

    def test_models_have_names_of_their_own(self):
        def refused(*options):
            result = subprocess.run([TAMIS, "serve", "-m", MODEL, "--port", "0", *options], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2, result.stderr)
            return result.stderr

        self.assertIn("cli_tiny", refused("-m", MODEL))
        self.assertIn("--alias", refused("-m", MODEL, "-a", "one", "-a", "two", "-a", "three"))
        self.assertIn("-md", refused("-m", OTHER, "-md", MODEL))
        with Running("-m", str(MODEL), "-a", "one", "-a", "two") as server:
            self.assertEqual([model["id"] for model in json.loads(server.ask("/v1/models")[1])["data"]], ["one", "two"])

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

    def test_https_with_a_certificate_that_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = f"{folder}/certificate.pem", f"{folder}/key.pem"
            make_certificate(certificate, key)
            refused = subprocess.run([TAMIS, "serve", "-m", MODEL, "--port", "0", "--tls-cert", certificate], capture_output=True, text=True)
            self.assertEqual(refused.returncode, 2)
            with Running("--tls-cert", certificate, "--tls-key", key) as server:
                self.assertTrue(server.url.startswith("https://"))
                server.tls = ssl.create_default_context(cafile=certificate)
                body = {"prompt": "hi", "max_tokens": 20, "ignore_eos": True, "temperature": 0}
                whole = server.ask("/v1/completions", body)
                self.assertEqual(whole[0], 200)
                streamed = server.ask("/v1/completions", {**body, "stream": True})[1]
                text = "".join(json.loads(line[6:])["choices"][0]["text"] for line in streamed.splitlines() if line.startswith("data: {"))
                self.assertEqual(text, json.loads(whole[1])["choices"][0]["text"])
                for version, is_taken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)):
                    self.assertEqual(self.agreed(server, version), "http/1.1" if is_taken else None)
                self.assertEqual(server.ask("/tokenize", {"content": "a" * 3000000})[0], 200)  # many records both ways
                make_certificate(certificate, key)
                server.process.send_signal(signal.SIGHUP)
                self.wait_until(lambda: "read again" in server.text())
                with self.assertRaises(urllib.error.URLError):
                    server.ask("/health")  # another certificate now
                server.tls = ssl.create_default_context(cafile=certificate)
                self.assertEqual(server.ask("/health")[0], 200)
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(60), 0)

    def agreed(self, server, version):
        """The protocol agreed on under that version of TLS, None when the server refuses."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        context.set_ciphers("DEFAULT@SECLEVEL=0")
        context.set_alpn_protocols(["h2", "http/1.1"])
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                return secure.selected_alpn_protocol()
        except (ssl.SSLError, ConnectionError):
            return None

    def test_a_broken_model_fails_the_load(self):  # promise 2
        whole = MODEL.read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            for name, data in (("cut", whole[:len(whole) // 2]), ("magic", b"GGUF" + b"\xff" * 64), ("empty", b"")):
                path = pathlib.Path(folder) / f"{name}.gguf"
                path.write_bytes(data)
                failed = subprocess.run([TAMIS, "serve", "-m", path, "--port", "0"], capture_output=True, text=True, timeout=60)
                self.assertEqual(failed.returncode, 3, failed.stderr)
                self.assertIn(f"{name}.gguf", failed.stderr)

    def test_nothing_is_fetched_and_no_prompt_is_told(self):  # promises 27 and 31
        with Running() as server, socket.create_server(("127.0.0.1", 0)) as elsewhere:
            url = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/picture.png"
            for part in ({"type": "image_url", "image_url": {"url": url}}, {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}):
                status, text = server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": [part]}]})
                self.assertEqual(status, 400)
                self.assertNotIn("root:", text)
            elsewhere.settimeout(0.2)
            with self.assertRaises(TimeoutError):
                elsewhere.accept()
            marker = "sesame-marker"
            server.ask("/v1/completions", {"prompt": marker, "max_tokens": 2, "user": marker, "model": marker})
            for path in ("/metrics", "/props", "/v1/models", "/health", "/slots", "/api/ps"):
                self.assertNotIn(marker, server.ask(path)[1], path)

    def test_memory_does_not_grow(self):  # promise 34
        def resident(server):
            return int(re.search(r"^VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text(), re.M).group(1))

        bodies = [{"prompt": "hello", "max_tokens": 2}, {"prompt": ["x"], "max_tokens": -1}, {"prompt": "y" * 3000}, {"messages": 1}, {}]
        with Running("--kv-bytes", "4M") as server:
            def some(n):
                for i in range(n):
                    server.ask("/v1/completions", bodies[i % len(bodies)])

            some(1000)
            before = resident(server)
            some(2000)
            self.assertLessEqual(resident(server), before * 1.05)
            status, text = server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}] * 100000})
            self.assertEqual(status, 400, text)

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertTrue(condition())

    def test_keys_are_read_again_on_a_hangup(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            def write(text):
                pathlib.Path(keys.name).write_text(text)

            write("first\n")
            with Running("--api-key-file", keys.name) as server:
                def status(key):
                    return server.ask("/v1/models", headers={"Authorization": f"Bearer {key}"})[0]

                self.assertEqual((status("first"), status("second")), (200, 401))
                write("second\n")
                server.process.send_signal(signal.SIGHUP)
                self.wait_until(lambda: status("second") == 200)
                self.assertEqual(status("first"), 401)
                write("")  # no key at all would open the server: the old ones stay
                server.process.send_signal(signal.SIGHUP)
                self.wait_until(lambda: "stay as they were" in server.text())
                self.assertEqual((status("second"), status("first")), (200, 401))

    def test_the_access_log_has_no_texts(self):
        with Running("--access-log", "json") as server:
            marker = "sesame-marker"
            server.ask("/v1/completions", {"prompt": marker, "max_tokens": 4, "ignore_eos": True, "user": marker})
            server.ask(f"/nothing?{marker}")
            server.ask("/v1/completions", {"prompt": marker, "max_tokens": -1})
            self.wait_until(lambda: server.text().count('"status"') == 3)
            lines = [json.loads(line) for line in server.text().splitlines() if line.startswith("{")]
            self.assertEqual([(line["method"], line["path"], line["status"]) for line in lines],
                             [("POST", "/v1/completions", 200), ("GET", "/nothing", 404), ("POST", "/v1/completions", 400)])
            self.assertEqual((lines[0]["generated_tokens"], lines[0]["end"], lines[0]["peer"]), (4, "length", "127.0.0.1"))
            self.assertEqual(len({line["id"] for line in lines}), 3)
            self.assertNotIn(marker, server.text())

    def test_a_log_that_nobody_reads_stops_nothing(self):  # promise 33
        process = subprocess.Popen([str(TAMIS), "serve", "-m", str(MODEL), "--port", "0", "--access-log", "json"], stderr=subprocess.PIPE)
        try:
            fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
            port = int(re.search(rb"listening on \S+:(\d+)$", process.stderr.readline()).group(1))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

            def ask(path):
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()

            def dropped():
                self.assertEqual(ask("/health")[0], 200)
                return int(re.search(r"^tamis_access_log_lines_dropped_total\S* (\d+)$", ask("/metrics")[1], re.M).group(1))

            path, n_asked = "/" + 250 * "a", 0
            while dropped() == 0 and n_asked < 20000:
                for _ in range(500):
                    self.assertEqual(ask(path)[0], 404)
                n_asked += 500
            self.assertGreater(n_asked, 1000)
            lines = []
            while not lines or "dropped_lines" not in lines[-1]:
                lines.append(json.loads(process.stderr.readline()))
            self.assertGreaterEqual(dropped(), lines[-1]["dropped_lines"])
            self.assertTrue(all(line["status"] in (200, 404) for line in lines[:-1]))
            for _ in range(200):  # the pipe is full again
                self.assertEqual(ask(path)[0], 404)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), 0)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def test_lines_of_its_own_log_that_nobody_reads_stop_nothing(self):
        process = subprocess.Popen([str(TAMIS), "serve", "-m", str(MODEL), "--port", "0", "-v", "-v"], stderr=subprocess.PIPE)
        try:
            fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
            for line in process.stderr:
                listening = re.search(rb"listening on \S+:(\d+)$", line)
                if listening:
                    break
            connection = http.client.HTTPConnection("127.0.0.1", int(listening.group(1)), timeout=60)
            for _ in range(300):  # a line of the log each, several times what the pipe holds
                connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1}), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                self.assertEqual(answer.status, 200, answer.read())
                answer.read()
            connection.request("GET", "/metrics")
            self.assertRegex(connection.getresponse().read().decode(), r"(?m)^tamis_log_lines_dropped_total\S* 0$")
            connection.close()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), 0)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def test_guessed_tokens_and_a_spill_file_change_no_answer(self):
        with tempfile.TemporaryDirectory() as spills:
            answers = []
            for options in (["--spec", "off"], ["-md", str(MODEL), "--kv-spill-dir", spills, "--kv-spill-bytes", "1M"]):
                with Running(*options) as server:
                    status, text = server.ask("/completion", {"prompt": "a b a b a b a b", "n_predict": 60, "ignore_eos": True, "temperature": 0})
                    self.assertEqual(status, 200, text)
                    answers.append(json.loads(text)["content"])
                    self.assertIn("draft_n_accepted", json.loads(text)["timings"])
                    self.assertIn("tamis_kv_pages_spilled_total", server.ask("/metrics")[1])
                    self.assertEqual(os.listdir(spills), [], "the file has no name")
            self.assertEqual(*answers)
        for options in (["--kv-spill-bytes", "1M"], ["--spec", "psychic"]):
            done = subprocess.run([str(TAMIS), "serve", "-m", str(MODEL), "--port", "0", *options], capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 2, options)

    def test_a_saved_session_outlives_a_kill(self):
        body = {"prompt": list(range(10, 80)), "n_predict": 30, "ignore_eos": True, "temperature": 0}
        with tempfile.TemporaryDirectory() as folder:
            def act(server, action, name):
                return server.ask(f"/slots/0?action={action}", {"filename": name})

            with Running() as server:
                expected = json.loads(server.ask("/completion", body)[1])["content"]
            saved = set()
            for number in range(3):
                with Running("--slot-save-path", folder) as server:
                    self.assertEqual([name for name in os.listdir(folder) if name.startswith(".")], [], "nothing half written stays")
                    for name in set(os.listdir(folder)) | saved:
                        status, text = act(server, "restore", name)
                        self.assertEqual(status, 200, text)
                    status, text = server.ask("/completion", body)
                    self.assertEqual(json.loads(text)["content"], expected)
                    self.assertEqual(json.loads(text)["tokens_cached"], 64 if saved else 0)

                    def save():
                        try:
                            for i in range(100000):
                                name = f"{number}-{i % 3}"
                                if act(server, "save", name)[0] == 200:
                                    saved.add(name)
                        except (OSError, http.client.HTTPException):
                            pass  # killed

                    saving = threading.Thread(target=save)
                    saving.start()
                    self.wait_until(lambda: len(saved) >= 3 * number + 2)
                    server.process.kill()
                    saving.join()
            self.assertGreaterEqual(len(saved), 8)
            for options, code in ((["--slot-save-path", f"{folder}/none"], 1), (["--slot-save-bytes", "1M"], 2)):
                done = subprocess.run([str(TAMIS), "serve", "-m", str(MODEL), "--port", "0", *options], capture_output=True, timeout=60)
                self.assertEqual(done.returncode, code, done.stderr)

    def test_keys_apart_need_keys(self):
        refused = subprocess.run([TAMIS, "serve", "-m", MODEL, "--port", "0", "--cache-per-key"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--api-key-file", refused.stderr)

    def test_options_may_stand_in_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
            config.write("# a server\nalias = from-file\nnp = 3\nstrict-model = true\ninsecure = false\n\n")
            config.flush()
            with Running("--config", config.name, "-np", "5") as server:
                self.assertEqual(json.loads(server.ask("/props")[1])["total_slots"], 5)  # the command line comes first
                self.assertEqual(json.loads(server.ask("/v1/models")[1])["data"][0]["id"], "from-file")
                self.assertEqual(server.ask("/v1/completions", {"prompt": "a", "max_tokens": 1})[0], 404)


def make_certificate(certificate, key):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
