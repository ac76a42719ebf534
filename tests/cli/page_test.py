#!/usr/bin/env python3
"""The page of `tamis serve` in headless Chromium: streaming, stop, edit, retry, hostile text, keys, looks. usage: page_test.py TAMIS

The page and all answers but one kind come from the program. Chat answers that a test must hold, or that no tiny model writes, come
from a stand-in before it on the same origin. Exit 77 where Playwright (tests/requirements.txt) or Chromium is not installed.
"""
import http.server
import json
import pathlib
import shutil
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

from serve_test import OTHER, Running

CHROMIUM = shutil.which("chromium")
try:
    from playwright.sync_api import sync_playwright
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if CHROMIUM is None:
    print("skipped: no chromium")
    sys.exit(77)

WATCH = """
window.violations = []; window.hacked = false;
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI));
"""

# Names, ids and contrast of everything that can be seen: a list of what is wrong.
AUDIT = """() => {
  const wrong = [];
  const seen = (one) => one.getClientRects().length > 0 && getComputedStyle(one).visibility !== "hidden";
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => wrong.push("twice: " + id));
  for (const attribute of ["aria-controls", "aria-labelledby", "aria-describedby", "for"])
    for (const one of document.querySelectorAll(`[${attribute}]`))
      if (!document.getElementById(one.getAttribute(attribute))) wrong.push(`${attribute} leads nowhere: ${one.getAttribute(attribute)}`);
  for (const one of document.querySelectorAll("button, a, input, select, textarea, summary, [role=img], [role=tab], pre[tabindex]")) {
    const label = one.id && document.querySelector(`label[for="${one.id}"]`);
    const name = one.getAttribute("aria-label") || one.textContent.trim() || label?.textContent.trim();
    if (!name) wrong.push("no name: " + one.outerHTML.slice(0, 80));
    const box = one.getBoundingClientRect();
    if (one.tagName === "BUTTON" && seen(one) && !one.classList.contains("link") && (box.width < 24 || box.height < 24)) wrong.push("small: " + name);
  }
  const canvas = document.createElement("canvas"); canvas.width = canvas.height = 1;
  const paint = canvas.getContext("2d", {willReadFrequently: true});
  const rgba = (color) => { paint.clearRect(0, 0, 1, 1); paint.fillStyle = color; paint.fillRect(0, 0, 1, 1); return [...paint.getImageData(0, 0, 1, 1).data]; };
  const light = (color) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => { const c = color[i] / 255; return sum + weight * (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); }, 0);
  const ground = (one) => { for (let at = one; at; at = at.parentElement) { const color = rgba(getComputedStyle(at).backgroundColor); if (color[3] > 200) return color; } return [255, 255, 255, 255]; };
  for (const one of document.querySelectorAll("body *")) {
    const hasText = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "");
    if (!hasText || !seen(one) || one.closest(".unseen, .skip")) continue;
    const [a, b] = [light(rgba(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) wrong.push(`contrast ${ratio.toFixed(2)}: ${one.textContent.trim().slice(0, 30)}`);
  }
  return wrong;
}"""


class StandIn(http.server.ThreadingHTTPServer):
    """Hands everything on to the program, except chat answers when a script is set: a list of deltas, and events to wait for."""

    daemon_threads = True

    def __init__(self, url):
        self.upstream, self.script, self.asked, self.left = url, None, [], threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.hand_on(None)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/chat/completions":
            self.server.asked.append(json.loads(body))
            if self.server.script is not None:
                return self.play(self.server.script)
        self.hand_on(body)

    def hand_on(self, body):
        headers = {name: value for name, value in self.headers.items() if name.lower() in ("content-type", "authorization", "if-none-match")}
        request = urllib.request.Request(self.server.upstream + self.path, body, headers)
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("connection", "transfer-encoding", "content-length", "date"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def play(self, script):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for step in script:
                if isinstance(step, threading.Event):
                    while not step.wait(0.05):
                        self.tell(": ping")
                else:
                    self.tell("data: " + json.dumps({"choices": [{"index": 0, "delta": step, "finish_reason": None}]}))
            self.tell("data: " + json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
            self.tell("data: " + json.dumps({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}, "timings": {"predicted_per_second": 12.5, "first_token_ms": 80}}))
            self.tell("data: [DONE]")
        except OSError:
            self.server.left.set()

    def tell(self, line):
        self.wfile.write(f"{line}\n\n".encode())
        self.wfile.flush()


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Running("-c", "0")
        cls.play = sync_playwright().start()
        cls.browser = cls.play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.play.stop()
        cls.server.__exit__()

    def setUp(self):
        self.stand_in = StandIn(self.server.url)
        self.context = self.browser.new_context(viewport={"width": 1280, "height": 860})
        self.errors, self.requests, self.origins = [], [], []
        self.page = self.open(self.stand_in.url)

    def open(self, url):
        page = self.context.new_page()
        page.set_default_timeout(60000)
        page.add_init_script(WATCH)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" and "status of 401" not in message.text else None)
        page.on("dialog", lambda dialog: (self.errors.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url + "/")
        page.wait_for_selector("#draft")
        self.origins.append(url + "/")
        return page

    def tearDown(self):
        # Whatever a test did: nothing left the origin, no rule of the policy was broken, no script failed.
        try:
            self.assertEqual(self.page.evaluate("window.violations"), [])
            self.assertFalse(self.page.evaluate("window.hacked"))
            self.assertEqual([url for url in self.requests if not url.startswith(tuple(self.origins))], [])
            self.assertEqual(self.errors, [])
        finally:
            self.context.close()
            self.stand_in.shutdown()
            self.stand_in.server_close()

    def ask(self, text, page=None):
        page = page or self.page
        page.fill("#draft", text)
        page.press("#draft", "Enter")

    def wait_for_end(self, n_messages=2):
        self.page.wait_for_selector(f"tamis-message:nth-child({n_messages})[aria-busy=false] .figures:not(:empty)")

    def texts(self):
        return [body.inner_text() for body in self.page.query_selector_all("tamis-message .body")]

    def test_a_real_answer_streams_and_is_kept(self):
        self.page.keyboard.press("Alt+s")
        self.page.fill("#set-max_tokens", "5")
        self.page.fill("#set-temperature", "0")
        self.page.fill("#set-system", "be brief")
        self.ask("hello")
        self.wait_for_end()
        sent = self.stand_in.asked[0]
        self.assertEqual(sent["messages"], [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}])
        self.assertEqual((sent["max_tokens"], sent["temperature"], sent["stream"]), (5, 0, True))
        before = self.texts()
        self.page.reload()
        self.page.wait_for_selector("tamis-message:nth-child(2)")
        self.assertEqual(self.texts(), before)
        self.assertEqual(self.page.input_value("#set-system"), "be brief")
        self.assertEqual(self.page.inner_text("#model-name"), "cli_tiny")

    def test_stop_leaves_what_came(self):
        held = threading.Event()
        self.stand_in.script = [{"content": "first words"}, held, {"content": " and never these"}]
        for stop in (lambda: self.page.keyboard.press("Escape"), lambda: self.page.click("#send[aria-label=Stop]")):
            self.stand_in.left.clear()
            self.ask("tell me")
            self.page.wait_for_selector("tamis-message[aria-busy=true] >> text=first words")
            stop()
            self.page.wait_for_selector("tamis-message:last-child >> text=Stopped.")
            self.assertTrue(self.stand_in.left.wait(30))  # the connection is closed, which frees the model
            self.assertEqual(self.texts()[-1], "first words")
            self.assertEqual(self.page.get_attribute("#send", "aria-label"), "Send")
        held.set()

    def test_edit_and_retry(self):
        self.stand_in.script = [{"content": "one"}]
        self.ask("first")
        self.wait_for_end(2)
        self.ask("second")
        self.wait_for_end(4)
        self.stand_in.script = [{"content": "another"}]
        self.page.press("body", "Alt+r")
        self.page.wait_for_selector("tamis-message:nth-child(4)[aria-busy=false] >> text=another")
        self.assertEqual(self.texts(), ["first", "one", "second", "another"])
        self.page.click("tamis-message:nth-child(1) button[aria-label^=Edit]")
        self.page.fill("tamis-message .editor textarea", "changed")
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("tamis-message:nth-child(2)[aria-busy=false] >> text=another")
        self.assertEqual(self.texts(), ["changed", "another"])
        self.assertEqual(self.stand_in.asked[-1]["messages"], [{"role": "user", "content": "changed"}])
        self.page.click("#draft")
        self.page.keyboard.press("ArrowUp")
        self.page.click("#draft")
        self.page.keyboard.press("ArrowUp")  # the same box again
        self.assertEqual(self.page.eval_on_selector_all(".editor textarea", "all => all.map((one) => one.value)"), ["changed"])
        self.page.keyboard.press("Escape")
        self.assertEqual(self.page.query_selector(".editor"), None)
        self.assertEqual(len(self.stand_in.asked), 4)

    def test_two_tabs_keep_each_others_conversations(self):
        other = self.open(self.stand_in.url)
        self.stand_in.script = [{"content": "yes"}]
        titles = lambda page: page.eval_on_selector_all("#chat-list .open", "all => all.map((one) => one.title)")
        for page, text in ((self.page, "asked here"), (other, "asked there")):
            self.ask(text, page)
            page.wait_for_selector("tamis-message:nth-child(2)[aria-busy=false] .figures:not(:empty)")
        self.page.wait_for_selector("#chat-list >> text=asked there")
        self.ask("and again")
        self.wait_for_end(4)
        other.click("#chat-list [aria-label*='asked here']")
        self.page.wait_for_selector("#chat-list >> text=asked here", state="detached")
        self.assertEqual([titles(page) for page in (self.page, other)], [["asked there"]] * 2)
        self.assertEqual(self.texts(), ["asked here", "yes", "and again", "yes"])  # what is shown stays, and comes back with an answer
        self.ask("once more")
        self.wait_for_end(6)
        other.wait_for_selector("#chat-list >> text=asked here")
        self.page.reload()
        self.page.wait_for_selector("tamis-message:nth-child(6)")
        self.assertEqual(titles(self.page), ["asked here", "asked there"])

    def test_a_browser_that_stores_nothing_still_chats(self):
        self.context.add_init_script("for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new DOMException('no', 'SecurityError'); } });")
        self.page.reload()
        self.stand_in.script = [{"content": "yes"}]
        for text in ("one", "two"):
            self.page.keyboard.press("Alt+n")
            self.ask(text)
            self.wait_for_end()
        self.assertEqual(self.page.eval_on_selector_all("#chat-list .open", "all => all.map((one) => one.title)"), ["two", "one"])

    def test_hostile_text_stays_text(self):
        hostile = [
            "<img src=x onerror='window.hacked=true'>", "<script>window.hacked=true</script>", "<iframe src='javascript:parent.hacked=true'></iframe>",
            "[a](javascript:window.hacked=true)", "[b](JaVaScRiPt:hacked=1)", "[c](data:text/html,<script>hacked=1</script>)", "[d](java\nscript:alert(1))",
            "![pixel](http://192.0.2.1/pixel.png)", "![x](x\" onerror=\"window.hacked=true)", "<svg onload=alert(1)>", "`<b>code</b>`", "[e](https://example.org/\" onclick=\"alert(1))",
            "# <a href=javascript:alert(1)>x</a>", "| <img src=x onerror=alert(1)> | b |\n|---|---|\n| [t](vbscript:x) | y |", "```html\n<script>hacked=true</script>\n```",
            "[" * 3000, "*" * 3000, "> " * 3000, "`" * 3000, "- " * 2000, "# a" + " " * 6000 + "b", "~~~ a" + " " * 20000 + "`", "a | b\n" + " " * 20000 + "x-", "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
        ]
        self.stand_in.script = [{"reasoning_content": hostile[0]}, *({"content": text + "\n\n"} for text in hostile),
                                {"tool_calls": [{"index": 0, "function": {"name": hostile[0], "arguments": hostile[1]}}]}]
        self.ask("<img src=x onerror='window.hacked=true'>")
        self.wait_for_end()
        for forbidden in ("img", "script", "iframe", "style", "object", "form", "[onerror]", "[onclick]", "[onload]", "[style]"):
            self.assertEqual(len(self.page.query_selector_all(f"#messages {forbidden}")), 0, forbidden)
        addresses = self.page.eval_on_selector_all("#messages a", "all => all.map((one) => [one.protocol, one.rel])")
        self.assertGreater(len(addresses), 0)
        self.assertEqual([address for address in addresses if address[0] not in ("http:", "https:", "mailto:") or "noopener" not in address[1]], [])
        self.assertIn("<script>window.hacked=true</script>", self.page.inner_text("#messages"))
        self.page.reload()
        self.page.wait_for_selector("tamis-message:nth-child(2)")

    def test_markdown(self):
        text = "# Title\n\nSome **bold**, *lean* and `code_with_marks`.\nhttps://example.org/a_b_c.\n\n- one\n  1. inner\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n\n```py\nx = 1\n\ny = 2\n```\n2 * 3 * 4 and snake_case_name"
        self.stand_in.script = [{"content": character} for character in text]
        self.ask("write")
        self.wait_for_end()
        prose = "tamis-message:nth-child(2) .prose"
        for selector, content in (("h1", "Title"), ("strong", "bold"), ("em", "lean"), ("p code", "code_with_marks"), ("a", "https://example.org/a_b_c"),
                                  ("ul > li > ol > li", "inner"), ("td", "1"), ("blockquote", "quoted"), ("pre code", "x = 1\n\ny = 2")):
            self.assertEqual(self.page.inner_text(f"{prose} {selector} >> nth=0"), content)
        self.assertEqual(self.page.inner_text(f"{prose} > p:last-child"), "2 * 3 * 4 and snake_case_name")
        self.assertEqual(len(self.page.query_selector_all(f"{prose} ul > li")), 2)

    def test_thoughts_and_tools_are_shown(self):
        self.stand_in.script = [{"reasoning_content": "let me "}, {"reasoning_content": "see"}, {"content": "done"},
                                {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "weather", "arguments": "{\"city\":"}}]},
                                {"tool_calls": [{"index": 0, "function": {"arguments": "\"Lyon\"}"}}]}]
        self.ask("go")
        self.wait_for_end()
        self.page.click("details.thoughts summary")
        self.assertEqual(self.page.inner_text("details.thoughts .inside"), "let me see")
        self.assertEqual(self.page.inner_text("details.call summary"), "Calls weather")
        self.assertEqual(self.page.inner_text("details.call code"), '{\n  "city": "Lyon"\n}')
        self.assertIn("12.5 tokens/s", self.page.inner_text("tamis-message:nth-child(2) .figures"))

    def test_a_refusal_is_told(self):
        self.page.keyboard.press("Alt+s")
        self.page.fill("#set-stop", "\n".join("abc"))
        self.page.evaluate("document.querySelector('tamis-sampling').settings.temperature = -1")
        self.ask("x")
        self.page.wait_for_selector("tamis-message .error:not([hidden]) >> text=temperature")
        self.assertEqual(self.stand_in.asked[0]["stop"], ["a", "b", "c"])
        self.errors = [error for error in self.errors if "status of 400" not in error]

    def test_a_key_is_asked_for_and_forgotten_with_the_tab(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("sesame\n")
            keys.flush()
            with Running("--api-key-file", keys.name) as locked:
                self.page.close()
                self.page = self.open(locked.url)
                for text in ("wrong", "sesame"):
                    self.page.wait_for_selector("#key-dialog[open]")
                    self.page.fill("#key", text)
                    self.page.keyboard.press("Enter")
                self.page.wait_for_selector("#model-name:has-text('cli_tiny')")
                self.assertEqual(self.page.evaluate("sessionStorage.getItem('tamis.key')"), "sesame")
                self.assertNotIn("sesame", self.page.evaluate("JSON.stringify(localStorage)"))
                self.page.keyboard.press("Alt+s")
                self.page.fill("#set-max_tokens", "3")
                self.ask("hello")
                self.wait_for_end()
                self.assertEqual(self.page.evaluate("window.violations"), [])

    def test_one_of_several_models_is_chosen(self):
        with Running("-m", str(OTHER), "-a", "first", "-a", "second", "--ram-budget", "600K") as several:
            stand_in = StandIn(several.url)
            self.page.close()
            self.page = self.open(stand_in.url)
            self.page.wait_for_selector("#model-choice:not([hidden])")
            options = lambda: self.page.eval_on_selector_all("#model-choice option", "all => all.map((one) => one.text)")
            self.assertEqual(options(), ["first", "second (loaded when asked)"])
            self.assertFalse(self.page.is_visible("#model-name"))
            self.assertEqual(self.page.evaluate(AUDIT), [])
            self.page.keyboard.press("Alt+s")
            self.page.fill("#set-max_tokens", "3")
            self.page.select_option("#model-choice", "second")
            self.assertEqual(self.page.evaluate("document.activeElement.id"), "draft")
            self.ask("hello")
            self.wait_for_end()
            self.assertEqual(stand_in.asked[0]["model"], "second")
            self.page.wait_for_selector("#model-choice option >> text=first (loaded when asked)", state="attached")  # it made room
            self.assertEqual(options(), ["first (loaded when asked)", "second"])
            self.page.reload()
            self.page.wait_for_selector("#model-choice:not([hidden])")
            self.assertEqual(self.page.input_value("#model-choice"), "second")
            self.page.keyboard.press("Alt+s")
            self.page.click("#tab-model")
            self.page.wait_for_selector("tamis-model dd >> text=in memory")
            self.assertEqual(self.page.inner_text("tamis-model dd >> nth=0"), "second")
            stand_in.shutdown()
            stand_in.server_close()

    def test_everything_has_a_name_and_contrast(self):
        self.stand_in.script = [{"reasoning_content": "hm"}, {"content": "# Title\n\ntext `code` [link](https://example.org)\n\n> quote\n\n```py\nx\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"},
                                {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]}]
        self.assertEqual(self.page.evaluate(AUDIT), [])
        self.ask("go")
        self.wait_for_end()
        self.page.click("details.thoughts summary")
        self.page.keyboard.press("Alt+s")
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            for tab in ("sampling", "model", "live"):
                self.page.click(f"#tab-{tab}")
                self.page.wait_for_selector(f"#view-{tab}:not([hidden])")
                self.assertEqual(self.page.evaluate(AUDIT), [], f"{scheme} {tab}")
        colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        dark = self.page.evaluate(colours)
        self.page.click("#theme")  # light, whatever the system says
        self.assertNotEqual(self.page.evaluate(colours), dark)
        self.page.reload()
        self.page.wait_for_selector("tamis-message")
        self.assertNotEqual(self.page.evaluate(colours), dark)

    def test_the_keyboard_is_enough(self):
        self.stand_in.script = [{"content": "yes"}]
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "draft")
        self.page.focus(".skip")
        self.assertGreaterEqual(self.page.evaluate("document.activeElement.getBoundingClientRect().top"), 0)  # seen when it has the focus
        for expected in ("toggle-chats", "theme", "toggle-panel", "new-chat"):
            self.page.keyboard.press("Tab")
            self.assertEqual(self.page.evaluate("document.activeElement.id"), expected)
        self.page.focus(".skip")
        self.page.keyboard.press("Enter")
        self.page.keyboard.type("a question")
        self.page.keyboard.press("Enter")
        self.wait_for_end()
        self.page.evaluate("document.activeElement.blur()")
        self.page.keyboard.press("?")
        self.page.wait_for_selector("#shortcuts[open]")
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("/")
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "draft")
        self.page.keyboard.press("Alt+n")
        self.page.wait_for_selector("#empty:not([hidden])")
        self.assertIn("complete", self.page.inner_text("#status"))
        self.page.keyboard.press("Alt+s")
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "tab-sampling")
        self.page.keyboard.press("ArrowRight")
        self.page.wait_for_selector("tamis-model dd >> text=cli_tiny")
        self.page.keyboard.press("ArrowRight")
        self.page.wait_for_selector("#view-live .chart path.first[d]", state="attached")

    def test_it_is_as_narrow_as_a_telephone(self):
        self.page.set_viewport_size({"width": 360, "height": 640})
        self.stand_in.script = [{"content": "word " * 50 + "x" * 300 + "\n\n```\n" + "y" * 300 + "\n```\n\n" + "|a" * 30 + "|\n" + "|-" * 30 + "|\n"}]
        self.ask("z" * 200)
        self.wait_for_end()
        for open_something in (lambda: None, lambda: self.page.click("#toggle-chats"), lambda: self.page.click("#toggle-panel")):
            open_something()
            self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 360)
            self.assertEqual(self.page.evaluate("[...document.querySelectorAll('#scroller, aside')].filter((one) => one.scrollWidth > one.clientWidth).length"), 0)
        self.page.keyboard.press("Escape")
        self.assertFalse(self.page.is_visible("#panel"))


if __name__ == "__main__":
    unittest.main()
