#!/usr/bin/env python3
"""`tamis bench serve` against `tamis serve`, at toy size, and against servers that misbehave. usage: bench_serve_test.py TAMIS"""
import json
import socket
import subprocess
import tempfile
import threading
import unittest

from serve_test import TAMIS, Running


def bench(scenario, url, *options):
    done = subprocess.run([str(TAMIS), "bench", "serve", scenario, "--url", url, "--json", *options], capture_output=True, text=True, timeout=240)
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else done.stderr


class Answering:
    """A server that gives every connection the same bytes, then closes it."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(65536)
                head, body = request.split(b"\r\n\r\n", 1)
                wanted = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
                while len(body) < wanted:
                    body += connection.recv(65536)
                connection.sendall(self.answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread before another listener may get this descriptor
        self.thread.join()
        self.listener.close()


def stream(*events):
    body = "".join(f"data: {event}\n\n" for event in events)
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{body}".encode()


class BenchServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = tempfile.NamedTemporaryFile("w")
        cls.keys.write("first\nsecond\n")
        cls.keys.flush()
        cls.server = Running("-c", "1024", "--max-seqs", "4", "--max-queue", "256", "--max-connections-per-ip", "0", "--api-key-file", cls.keys.name)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.keys.close()

    def run_scenario(self, scenario, *options):
        code, out = bench(scenario, self.server.url, "--api-key-file", self.keys.name, *options)
        self.assertEqual(code, 0, out)
        self.assertEqual((out["schema"], out["scenario"], out["model"]), (1, scenario, "cli_tiny"))
        return out

    def check_all_answered(self, phase, n, n_output):
        self.assertEqual((phase["requests"], phase["answered"], phase["errors"]), (n, n, {}))
        self.assertEqual(phase["output_tokens"], n_output)
        self.assertGreater(phase["ttft_s"]["p50"], 0)
        self.assertGreaterEqual(phase["e2e_s"]["max"], phase["ttft_s"]["max"])

    def test_closed_open_and_one_stream(self):
        for scenario, options in (("closed", ["--clients", "3"]), ("open", ["--rate", "50"]), ("S1", [])):
            out = self.run_scenario(scenario, "--requests", "6", "--prompt-tokens", "20-40", "--output-tokens", "5", *options)
            self.check_all_answered(out["phases"][0], 6, 30)
        self.assertGreater(out["facts"]["decode_rate"], 0)

    def test_the_same_seed_asks_the_same(self):
        options = ["--requests", "5", "--prompt-tokens", "10-60", "--output-tokens", "1-9", "--clients", "2"]
        runs = [self.run_scenario("closed", *options, "--seed", seed)["phases"][0] for seed in ("7", "7", "8")]
        sizes = [(phase["prompt_tokens"], phase["output_tokens"]) for phase in runs]
        self.assertEqual(sizes[0], sizes[1])
        self.assertNotEqual(sizes[0], sizes[2])

    def test_a_sweep_finds_a_rate(self):
        out = self.run_scenario("S2", "--rate", "1000", "--requests", "4", "--prompt-tokens", "10", "--output-tokens", "3", "--slo-ttft-ms", "60000",
                                "--slo-tpot-ms", "60000")
        self.assertEqual(out["facts"]["goodput_rate"], 64000)
        lost = self.run_scenario("S2", "--rate", "20", "--requests", "2", "--prompt-tokens", "10", "--output-tokens", "30", "--slo-ttft-ms", "0.001")
        self.assertEqual(lost["facts"]["goodput_rate"], 0)
        self.assertTrue(all(phase["within_slo"] == 0 for phase in lost["phases"]))

    def test_a_long_prompt_among_streams(self):
        out = self.run_scenario("S3", "--prompt-tokens", "150", "--output-tokens", "2", "--clients", "2")
        self.assertEqual([phase["name"] for phase in out["phases"]], ["alone", "together"])
        self.assertGreater(out["facts"]["ttft_ratio"], 0)
        self.assertGreater(out["facts"]["largest_gap"], 0)

    def test_a_shared_prefix_is_counted(self):
        out = self.run_scenario("S4", "--clients", "4", "--prompt-tokens", "128", "--output-tokens", "2")
        self.check_all_answered(out["phases"][0], 4, 8)
        self.assertTrue(0.5 < out["facts"]["computed_over_unique"] < 2, out["facts"])

    def test_an_agent_sends_its_turns_again(self):
        out = self.run_scenario("S5", "--requests", "3", "--prompt-tokens", "60", "--output-tokens", "3")
        self.assertEqual(len(out["phases"]), 3, out)
        for phase in out["phases"]:
            self.check_all_answered(phase, 1, 3)
        self.assertGreater(out["phases"][2]["cached_tokens"], out["phases"][0]["prompt_tokens"] / 2)
        self.assertLess(out["facts"]["computed_over_unique"], 1.5)

    def test_many_sequences_and_one_long_prompt(self):
        self.check_all_answered(self.run_scenario("S6", "--requests", "8", "--clients", "8", "--prompt-tokens", "40", "--output-tokens", "40")["phases"][0], 8, 320)
        out = self.run_scenario("S9", "--prompt-tokens", "600", "--output-tokens", "4")
        self.check_all_answered(out["phases"][0], 1, 4)
        self.assertTrue(550 < out["phases"][0]["prompt_tokens"] < 650, out)

    def test_overload_is_refused_not_failed(self):
        out = self.run_scenario("S7", "--clients", "4", "--requests", "8", "--prompt-tokens", "10", "--output-tokens", "4")
        self.assertEqual(out["facts"]["failed_otherwise"], 0)
        self.assertEqual(out["phases"][1]["requests"], 24)

    def test_two_tenants(self):
        out = self.run_scenario("S8", "--clients", "2", "--requests", "4", "--prompt-tokens", "10", "--output-tokens", "20")
        self.assertGreater(out["facts"]["served_heavy"], 0)
        self.assertGreater(out["facts"]["served_light"], 0)
        code, message = bench("S8", self.server.url, "--api-key-file", "/dev/null", "--model", "x")
        self.assertEqual(code, 5, message)  # no key at all: the server says 401

    def test_schema_and_free_answers(self):
        out = self.run_scenario("S11", "--clients", "2", "--requests", "2", "--prompt-tokens", "10", "--output-tokens", "12")
        self.assertEqual([phase["name"] for phase in out["phases"]], ["free", "schema", "free", "schema"])
        for phase in out["phases"]:
            self.check_all_answered(phase, 2, 24)

    def test_a_trace_has_a_line_a_request(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/trace.jsonl"
            options = ["--requests", "3", "--prompt-tokens", "10", "--output-tokens", "4", "--trace", path]
            self.run_scenario("closed", *options)
            with open(path) as lines:
                rows = [json.loads(line) for line in lines]
            self.assertEqual([row["output_tokens"] for row in rows], [4, 4, 4])
            self.assertTrue(all(row["sent"] <= row["pieces"][0] <= row["pieces"][-1] <= row["ended"] for row in rows))
            code, message = bench("closed", self.server.url, "--api-key-file", self.keys.name, *options)
            self.assertNotEqual(code, 0)
            self.assertIn("trace.jsonl", message)

    def test_usage(self):
        self.assertEqual(bench("S10", self.server.url)[0], 3)
        self.assertEqual(bench("S12", self.server.url)[0], 2)
        self.assertEqual(bench("closed", "gopher://x")[0], 2)
        self.assertEqual(bench("closed", self.server.url, "--prompt-tokens", "9-3")[0], 2)
        self.assertEqual(bench("open", self.server.url, "--api-key-file", self.keys.name)[0], 2)
        plain = subprocess.run([TAMIS, "bench", "serve", "closed"], capture_output=True, text=True)
        self.assertEqual(plain.returncode, 2)
        self.assertIn("--url", plain.stderr)

    def test_servers_that_misbehave(self):
        usage = '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}'
        for answer, message in ((b"", "without an answer"), (b"SSH-2.0-x\r\n", "not HTTP"),
                                (b'HTTP/1.1 404 No\r\nContent-Length: 31\r\n\r\n{"error":{"message":"nothing"}}', "HTTP 404: nothing"),
                                (stream(usage), "[DONE]"), (stream("{", "[DONE]"), "not JSON"),
                                (stream('{"error":{"message":"it broke"}}'), "it broke"),
                                (stream('{"choices":[{"delta":{"content":"a"}}]}', "[DONE]"), "usage")):
            with Answering(answer) as server:
                code, out = bench("closed", server.url, "--model", "m")
                self.assertIn(code, (3, 5), out)
                self.assertIn(message, out)
        gone = socket.create_server(("127.0.0.1", 0))
        port = gone.getsockname()[1]
        gone.close()
        code, out = bench("closed", f"http://127.0.0.1:{port}")
        self.assertEqual(code, 5)
        self.assertIn("connect", out)


if __name__ == "__main__":
    unittest.main()
