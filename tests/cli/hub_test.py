#!/usr/bin/env python3
"""`tamis pull`, `ls`, `rm` and `-m USER/REPO` against a local server that plays the hub, honest and hostile. usage: hub_test.py TAMIS"""
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

TAMIS = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
SOURCE = pathlib.Path(__file__).resolve().parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = (SOURCE / "tests/golden/cli_vocab.gguf").read_bytes()
BIG = MODEL + bytes(range(256)) * 4096  # about a megabyte, so that an interrupted transfer has a middle


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def lfs(name, data, **changes):
    entry = {"rfilename": name, "size": len(data), "blobId": "0" * 40, "lfs": {"sha256": sha256(data), "size": len(data), "pointerSize": 130}}
    entry["lfs"].update(changes)
    return entry


class Hub(http.server.BaseHTTPRequestHandler):
    """What the server answers is set per test on the server object: `files`, `listing`, and `hook(handler, path)` for the hostile."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def do_GET(self):
        server = self.server
        server.seen.append((self.path, dict(self.headers)))
        if server.hook and server.hook(self, self.path):
            return
        if self.path.startswith("/api/models/"):
            self.reply(200, json.dumps({"id": "someone/model", "sha": COMMIT, "siblings": server.listing}).encode())
            return
        name = self.path.split(f"/resolve/{COMMIT}/")[-1] if "/resolve/" in self.path else self.path.lstrip("/")
        data = server.files.get(name)
        if data is None:
            self.reply(404, b"no such file")
            return
        wanted = self.headers.get("Range")
        if wanted:
            first = int(wanted.removeprefix("bytes=").rstrip("-"))
            self.reply(206, data[first:], Content_Range=f"bytes {first}-{len(data) - 1}/{len(data)}")
        else:
            self.reply(200, data)


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.handle_error = lambda *args: None  # clients that hang up are part of the tests
    server.seen, server.files, server.listing, server.hook = [], {}, [], None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class HubTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tamis-hub-"))
        self.server = serve()
        self.cache = self.dir / "hub"
        self.repo = self.cache / "models--someone--model"
        self.publish({"model-Q4_K_M.gguf": MODEL})

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.dir)

    def publish(self, files):
        self.server.files = files
        self.server.listing = [lfs(name, data) for name, data in files.items()]

    def tamis(self, *args, **env):
        endpoint = f"http://127.0.0.1:{self.server.server_port}"
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.dir), "HF_HUB_CACHE": str(self.cache), "HF_ENDPOINT": endpoint,
                       "HF_TOKEN": "secret", "no_proxy": "*", **env}
        return subprocess.run([TAMIS, *args], capture_output=True, text=True, env=environment, cwd=self.dir, timeout=120)

    def pull(self, name="someone/model", *args, **env):
        return self.tamis("pull", name, *args, **env)

    def assert_fails(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def files_below(self, folder):
        return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir() or p.is_symlink())

    # -- honest ------------------------------------------------------------------------------------------------------------------
    def test_layout_is_hugging_faces(self):
        done = self.pull()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        path = self.repo / "snapshots" / COMMIT / "model-Q4_K_M.gguf"
        self.assertEqual(done.stdout, f"{path}\n")
        self.assertEqual(os.readlink(path), f"../../blobs/{sha256(MODEL)}")
        self.assertEqual((self.repo / "refs/main").read_text(), COMMIT)
        self.assertEqual(path.read_bytes(), MODEL)
        self.assertEqual(self.files_below(self.repo), [f"blobs/{sha256(MODEL)}", "refs/main", f"snapshots/{COMMIT}/model-Q4_K_M.gguf"])

    def test_name_resolves_and_lists_and_is_removed(self):
        self.pull()
        for name in ("someone/model", "someone/model:Q4_K_M", "someone/model:q4_k_m", "model"):
            self.assertEqual(self.tamis("tokenize", "-m", name, "hell").stdout, "258\n", name)
        listed = json.loads(self.tamis("ls", "--json").stdout)["models"]
        self.assertEqual([(m["name"], m["commit"], m["size_bytes"]) for m in listed], [("someone/model:Q4_K_M", COMMIT, len(MODEL))])
        self.assertEqual(self.tamis("rm", "someone/model:Q4_K_M").returncode, 0)
        self.assertFalse(self.repo.exists())
        self.assertTrue(self.cache.exists())

    def test_second_pull_downloads_nothing(self):
        self.pull()
        before = len(self.server.seen)
        self.assertEqual(self.pull().returncode, 0)
        self.assertEqual([path for path, _ in self.server.seen[before:] if "/resolve/" in path], [])

    def test_nested_names_and_all_shards(self):
        first, second = "Q8_0/m-Q8_0-00001-of-00002.gguf", "Q8_0/m-Q8_0-00002-of-00002.gguf"
        self.publish({first: MODEL, second: BIG, "m-Q4_0.gguf": BIG})
        done = self.pull("someone/model:Q8_0")
        self.assertEqual(done.returncode, 0, done.stderr)
        snapshot = self.repo / "snapshots" / COMMIT
        self.assertEqual(done.stdout, f"{snapshot / first}\n")
        self.assertEqual(os.readlink(snapshot / first), f"../../../blobs/{sha256(MODEL)}")
        self.assertEqual((snapshot / second).read_bytes(), BIG)
        listed = json.loads(self.tamis("ls", "--json").stdout)["models"]
        self.assertEqual([(m["name"], m["complete"], len(m["files"])) for m in listed], [("someone/model:Q8_0", True, 2)])

    def test_choice_of_quant(self):
        self.publish({"m-Q8_0.gguf": BIG, "m-Q4_K_M.gguf": MODEL, "mmproj-F16.gguf": BIG})
        self.assertTrue(self.pull().stdout.endswith("m-Q4_K_M.gguf\n"))
        self.assertTrue(self.pull("someone/model", "--file", "m-Q8_0.gguf").stdout.endswith("m-Q8_0.gguf\n"))
        self.assert_fails(self.pull("someone/model:Q2_K"), 1, "no file fits", "m-Q8_0.gguf")
        self.publish({"m-Q8_0.gguf": BIG, "m-Q6_K.gguf": MODEL})
        self.assert_fails(self.pull(), 1, "no file fits")
        self.publish({"model.safetensors": BIG})
        self.assert_fails(self.pull(), 1, "has no usable .gguf file")

    def test_small_files_are_checked_by_gits_hash(self):
        git = hashlib.sha1(b"blob %d\0" % len(MODEL) + MODEL).hexdigest()
        self.server.listing = [{"rfilename": "model-Q4_K_M.gguf", "size": len(MODEL), "blobId": git}]
        self.assertEqual(self.pull().returncode, 0)
        self.assertTrue((self.repo / "blobs" / git).exists())

    def test_dry_run_writes_nothing(self):
        done = self.pull("someone/model", "--dry-run")
        self.assertEqual((done.returncode, done.stdout), (0, "model-Q4_K_M.gguf  4.32 kB\n"))
        self.assertFalse(self.cache.exists())

    def test_resumes_where_it_stopped(self):
        self.publish({"model-Q4_K_M.gguf": BIG})
        cut = len(BIG) // 2

        def hang_up(handler, path):
            if "/resolve/" not in path or handler.headers.get("Range"):
                return False
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(BIG)))
            handler.end_headers()
            handler.wfile.write(BIG[:cut])
            handler.wfile.flush()
            handler.connection.shutdown(2)
            return True

        self.server.hook = hang_up
        self.assert_fails(self.pull(), 5)
        partial = self.repo / "blobs" / (sha256(BIG) + ".incomplete")
        self.assertEqual(partial.stat().st_size, cut)
        self.assertFalse((self.repo / "snapshots").exists())
        self.assertEqual(self.pull().returncode, 0)
        self.assertEqual(self.server.seen[-1][1]["Range"], f"bytes={cut}-")
        self.assertEqual((self.repo / "blobs" / sha256(BIG)).read_bytes(), BIG)
        self.assertFalse(partial.exists())

    def test_starts_again_when_the_server_knows_no_ranges(self):
        self.publish({"model-Q4_K_M.gguf": BIG})
        partial = self.repo / "blobs" / (sha256(BIG) + ".incomplete")
        partial.parent.mkdir(parents=True)
        partial.write_bytes(BIG[:1000])
        self.server.hook = lambda handler, path: "/resolve/" in path and (handler.reply(200, BIG) or True)
        self.assertEqual(self.pull().returncode, 0)
        self.assertEqual((self.repo / "blobs" / sha256(BIG)).read_bytes(), BIG)

    def test_token_goes_to_the_hub_alone(self):
        other = serve()
        other.files = {"cdn": MODEL}
        self.server.hook = lambda handler, path: "/resolve/" in path and (
            handler.reply(302, Location=f"http://localhost:{other.server_port}/cdn") or True)
        self.assertEqual(self.pull().returncode, 0)
        self.assertEqual({headers.get("Authorization") for _, headers in self.server.seen}, {"Bearer secret"})
        self.assertEqual([(path, headers.get("Authorization")) for path, headers in other.seen], [("/cdn", None)])
        other.shutdown()
        other.server_close()

    # -- hostile -----------------------------------------------------------------------------------------------------------------
    def test_names_that_are_no_names(self):
        for name in ("someone", "../x/y", "a/b/c", "someone/../x", "someone/mo del", "someone/model:../x", "/etc/passwd", "-x/y", "a/" + "b" * 97, ""):
            done = self.tamis("pull", "--", name)
            self.assertEqual(done.returncode, 2, name)
        self.assertEqual(self.server.seen, [])

    def test_listed_names_that_would_leave_the_cache(self):
        for name in ("../../../evil.gguf", "/tmp/evil.gguf", "a/../../evil.gguf", "..%2f..%2fevil.gguf", "a\\evil.gguf", ".hidden.gguf", "a\0b.gguf",
                     "x" * 300 + ".gguf", "a\nb.gguf", "~/evil.gguf"):
            self.server.listing = [lfs(name, MODEL)]
            done = self.pull()
            self.assertEqual(done.returncode, 1, name)
            self.assertIn("refused", done.stderr)
            self.assertFalse(self.cache.exists(), name)

    def test_digests_and_commits_that_would_leave_the_cache(self):
        for digest in ("../../../../x", "sha256:../../etc", "A" * 64, "0" * 63, ""):
            self.server.listing = [lfs("m.gguf", MODEL, sha256=digest)]
            self.assert_fails(self.pull(), 1, "has no usable .gguf file")
        for commit in ("../../x", "main", COMMIT.upper()):
            body = json.dumps({"sha": commit, "siblings": [lfs("m.gguf", MODEL)]}).encode()
            self.server.hook = lambda handler, path: handler.reply(200, body) or True
            self.assert_fails(self.pull(), 3, "no commit")
        self.assertFalse(self.cache.exists())

    def test_wrong_hash_leaves_nothing(self):
        self.server.files = {"model-Q4_K_M.gguf": MODEL[:-1] + b"!"}
        self.assert_fails(self.pull(), 3, "E_DIGEST", sha256(MODEL))
        self.assertEqual(self.files_below(self.repo), [])

    def test_more_bytes_than_announced(self):
        self.server.files = {"model-Q4_K_M.gguf": MODEL + b"x" * 1000}
        self.assert_fails(self.pull(), 5, "longer than the")
        self.assertFalse((self.repo / "blobs" / sha256(MODEL)).exists())

    def test_endless_listing(self):
        def endless(handler, path):
            handler.send_response(200)
            handler.end_headers()
            try:
                for _ in range(64):
                    handler.wfile.write(b" " * (1 << 20))
            except (BrokenPipeError, ConnectionResetError):
                pass
            handler.close_connection = True
            return True

        self.server.hook = endless
        self.assert_fails(self.pull(), 5, "longer than the 16777216 bytes expected")

    def test_file_larger_than_the_disk(self):
        self.server.listing = [lfs("m.gguf", MODEL, size=1 << 43)]
        self.assert_fails(self.pull(), 4, "expected 8.80 TB")

    def test_answers_that_are_no_listing(self):
        for body in (b"", b"<html>", b"[]", b"null", b"{}", b"[" * 100000, b'{"sha":1,"siblings":2}', b"\xff\xfe", b'{"sha":"' + COMMIT.encode() + b'","siblings":{}}'):
            self.server.hook = lambda handler, path: handler.reply(200, body) or True
            self.assert_fails(self.pull(), 3)

    def test_wrong_range(self):
        self.publish({"model-Q4_K_M.gguf": BIG})
        partial = self.repo / "blobs" / (sha256(BIG) + ".incomplete")
        partial.parent.mkdir(parents=True)
        partial.write_bytes(BIG[:1000])
        self.server.hook = lambda handler, path: "/resolve/" in path and (
            handler.reply(206, BIG[500:], Content_Range=f"bytes 500-{len(BIG) - 1}/{len(BIG)}") or True)
        self.assert_fails(self.pull(), 5, "asked from byte 1000, got byte 500")

    def test_realm_of_a_401_gets_no_token(self):
        evil = serve()
        realm = f'Bearer realm="http://127.0.0.1:{evil.server_port}/token"'
        self.server.hook = lambda handler, path: handler.reply(401, b"no", WWW_Authenticate=realm) or True
        self.assert_fails(self.pull(), 5, "401", "HF_TOKEN")
        self.assertEqual(evil.seen, [])
        evil.shutdown()
        evil.server_close()

    def test_redirects_to_elsewhere(self):
        for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "javascript:x"):
            self.server.hook = lambda handler, path: handler.reply(302, Location=target) or True
            done = self.pull()
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertNotIn("root:", done.stderr)
        self.server.hook = lambda handler, path: handler.reply(302, Location=path) or True
        self.assert_fails(self.pull(), 5, "more than 5 redirects")

    def test_compressed_answers_are_not_unpacked(self):
        self.pull()
        self.assertEqual({headers.get("Accept-Encoding") for _, headers in self.server.seen}, {None})

    def test_no_server(self):
        self.assert_fails(self.pull(HF_ENDPOINT="http://127.0.0.1:9"), 5)
        self.assert_fails(self.pull(HF_ENDPOINT="file:///etc"), 5, "expected an http or https address")

    def test_links_planted_in_the_cache(self):
        target = self.dir / "precious"
        target.write_text("precious")
        (self.repo / "blobs").mkdir(parents=True)
        (self.repo / "blobs" / (sha256(MODEL) + ".incomplete")).symlink_to(target)
        self.assert_fails(self.pull(), 1)
        self.assertEqual(target.read_text(), "precious")

    # -- rm ----------------------------------------------------------------------------------------------------------------------
    def test_rm_keeps_what_is_not_its_own(self):
        self.publish({"a-Q4_0.gguf": MODEL, "b-Q8_0.gguf": BIG})
        self.pull("someone/model:Q4_0")
        self.pull("someone/model:Q8_0")
        config = self.repo / "snapshots" / COMMIT / "config.json"
        config.write_text("{}")
        older = self.repo / "snapshots" / ("f" * 40)
        older.mkdir()
        (older / "a.gguf").symlink_to(f"../../blobs/{sha256(MODEL)}")
        done = self.tamis("rm", "someone/model:Q4_0", "--dry-run")
        self.assertEqual((done.returncode, done.stdout), (0, "would remove someone/model:Q4_0  4.32 kB\n"))
        self.assertEqual(self.tamis("rm", "someone/model:Q4_0").returncode, 0)
        self.assertTrue((self.repo / "blobs" / sha256(MODEL)).exists(), "another snapshot uses this blob")
        self.assertEqual(self.tamis("rm", "someone/model").returncode, 0)
        self.assertFalse((self.repo / "blobs" / sha256(BIG)).exists())
        self.assertTrue(config.exists(), "other tools' files stay")


if __name__ == "__main__":
    unittest.main()
