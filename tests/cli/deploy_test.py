#!/usr/bin/env python3
"""The files of deploy/ say what the program takes. usage: deploy_test.py TAMIS

Options in unit, configuration, image and manifests go through the program's own parser (`… --help` parses them and does nothing);
manifests are read as YAML and held to the fields they use; the unit goes through `systemd-analyze verify` where that is installed.
"""
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

TAMIS = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"

try:
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def manifests():
    return {document["kind"]: document for document in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


def entry_point():
    text = (DEPLOY / "Dockerfile").read_text()
    return re.findall(r'"([^"]*)"', re.search(r"^ENTRYPOINT (\[.*\])$", text, re.M).group(1))


class DeployTest(unittest.TestCase):
    def check_options(self, words):
        ran = subprocess.run([TAMIS, *words, "--help"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, f"{words}: {ran.stderr}")

    def test_configuration_and_unit(self):
        self.check_options(["serve", "--config", str(DEPLOY / "serve.conf")])
        unit = (DEPLOY / "tamis.service").read_text()
        words = shlex.split(re.search(r"^ExecStart=\S+ (.*)$", unit, re.M).group(1))
        self.check_options([word.replace("/etc/tamis/serve.conf", str(DEPLOY / "serve.conf")) for word in words])
        stop, drain = (int(re.search(pattern, text, re.M).group(1)) for pattern, text in
                       ((r"^TimeoutStopSec=(\d+)$", unit), (r"^drain-timeout = (\d+)$", (DEPLOY / "serve.conf").read_text())))
        self.assertGreater(stop, drain)

    def test_systemd_reads_the_unit(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tamis.service"
            path.write_text((DEPLOY / "tamis.service").read_text().replace("/usr/local/bin/tamis", str(TAMIS)))
            ran = subprocess.run(["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True)
            about_ours = [line for line in (ran.stdout + ran.stderr).splitlines() if "tamis.service" in line]
            self.assertEqual(about_ours, [])

    def test_the_image(self):
        self.check_options(entry_point()[1:])
        text = (DEPLOY / "Dockerfile").read_text()
        setup = (ROOT / "scripts/setup").read_text()
        needed = set(re.search(r'^build="(.*?)"', setup, re.M | re.S).group(1).split()) - {"ccache", "python3", "python3-pip", "ca-certificates"}
        installed = set(re.search(r"AS build\nRUN .*?install -y --no-install-recommends (.*?)&&", text, re.S).group(1).replace("\\", " ").split())
        self.assertEqual(installed, needed)
        for source in re.findall(r"^COPY (\S+(?: \S+)*) \S+$", text, re.M):
            if not source.startswith("--from"):
                self.assertTrue(all((ROOT / name).exists() for name in source.split()), source)
        self.assertRegex(text, r"(?m)^USER [1-9]")

    def test_manifests(self):
        found = manifests()
        self.assertEqual(set(found), {"Service", "PersistentVolumeClaim", "PodDisruptionBudget", "Deployment"})
        spec = found["Deployment"]["spec"]
        pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
        self.assertEqual(spec["selector"]["matchLabels"], labels)
        self.assertEqual(found["Service"]["spec"]["selector"], labels)
        self.assertEqual(found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"], labels)
        container, = pod["containers"]
        self.check_options([*entry_point()[1:], *container["args"]])
        self.assertTrue(all(isinstance(word, str) for word in container["args"]))
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        self.assertEqual(str(ports[found["Service"]["spec"]["ports"][0]["targetPort"]]), entry_point()[entry_point().index("--port") + 1])
        for probe, path in (("startupProbe", "/health"), ("livenessProbe", "/health"), ("readinessProbe", "/ready")):
            self.assertEqual(container[probe]["httpGet"]["path"], path)
            self.assertIn(container[probe]["httpGet"]["port"], ports)
        volumes = {volume["name"] for volume in pod["volumes"]}
        self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
        drain = int(container["args"][container["args"].index("--drain-timeout") + 1])
        pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
        self.assertGreater(pod["terminationGracePeriodSeconds"], drain + pause)
        self.assertTrue(pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"])
        self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})


if __name__ == "__main__":
    unittest.main()
