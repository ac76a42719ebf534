// <tamis-live>: charts of the queue, of keys and values, and of tokens a second, from /metrics once a second while it is seen.
import { getText, parseMetrics } from "./api.js";
import { element, svg } from "./dom.js";

const N_POINTS = 90;
const WIDTH = 300;
const HEIGHT = 84;

// A line over the last points; `top` is the value at the upper edge.
function linePath(values, top) {
  const x = (i) => (WIDTH * (N_POINTS - values.length + i)) / (N_POINTS - 1);
  const y = (value) => HEIGHT - 3 - (Math.min(value / top, 1) * (HEIGHT - 8));
  return values.map((value, i) => `${i === 0 ? "M" : "L"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
}

class Chart {
  constructor(title, lines, top) {
    this.top = top; // null: as the values need
    this.lines = lines.map((name) => ({ name, values: [] }));
    this.output = element("output", {}, "–");
    this.area = svg("path", { class: "area" });
    this.paths = lines.map((_, i) => svg("path", { class: i === 0 ? "first" : "second", "stroke-dasharray": i === 0 ? null : "5 4" }));
    this.picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": title }, svg("g", { class: "first" }, this.area), ...this.paths);
    const legend = lines.length < 2 ? null : element("p", { class: "legend" }, ...lines.map((name, i) => element("span", { class: i === 0 ? "first" : "second" }, element("i"), name)));
    this.title = title;
    this.figure = element("figure", { class: "chart" }, element("figcaption", {}, title, this.output), this.picture, legend);
  }

  add(values, text) {
    this.lines.forEach((line, i) => {
      line.values.push(values[i]);
      if (line.values.length > N_POINTS) line.values.shift();
    });
    const top = this.top ?? Math.max(4, ...this.lines.flatMap((line) => line.values)) * 1.1;
    this.lines.forEach((line, i) => this.paths[i].setAttribute("d", linePath(line.values, top)));
    const first = this.lines[0].values;
    if (first.length > 1) this.area.setAttribute("d", `${linePath(first, top)}L${WIDTH} ${HEIGHT}L${((WIDTH * (N_POINTS - first.length)) / (N_POINTS - 1)).toFixed(1)} ${HEIGHT}Z`);
    this.output.textContent = text;
    this.picture.setAttribute("aria-label", `${this.title}: ${text}, over the last ${first.length} seconds`);
  }
}

class Live extends HTMLElement {
  #timer = null;
  #before = []; // of the last seconds: {generated, now}

  connectedCallback() {
    this.requests = new Chart("Requests", ["running", "waiting"], null);
    this.memory = new Chart("Keys and values in use", ["used"], 1);
    this.speed = new Chart("Tokens a second", ["generated"], null);
    this.trouble = element("p", { class: "quiet", role: "status" });
    this.totals = element("dl", { class: "facts" });
    this.replaceChildren(this.speed.figure, this.requests.figure, this.memory.figure, this.totals, this.trouble);
  }

  start() {
    if (this.#timer !== null) return;
    this.#timer = setInterval(() => document.visibilityState === "visible" && this.#take(), 1000);
    this.#take();
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = null;
    this.#before = [];
  }

  async #take() {
    try {
      this.#show(parseMetrics(await getText("/metrics")), performance.now());
      this.trouble.textContent = "";
    } catch (error) {
      this.trouble.textContent = error.message;
      if (error.status === 401) this.stop(); // asked again each second, the server would take it for guessing
    }
  }

  #show(metrics, now) {
    const value = (name) => metrics.get(name) ?? 0;
    const generated = value("vllm:generation_tokens_total");
    const running = value("vllm:num_requests_running");
    const waiting = value("vllm:num_requests_waiting");
    const used = value("tamis_kv_pages_used") / Math.max(value("tamis_kv_pages"), 1); // of all models
    this.requests.add([running, waiting], `${running} run, ${waiting} wait`);
    this.memory.add([used], `${(used * 100).toFixed(1)} %`);
    this.#before.push({ generated, now });
    if (this.#before.length > 4) this.#before.shift();
    const [first] = this.#before;
    if (now > first.now) {
      const rate = Math.max(0, ((generated - first.generated) * 1000) / (now - first.now));
      this.speed.add([rate], rate.toFixed(1));
    }
    const read = value("vllm:prompt_tokens_total");
    const known = value("vllm:prefix_cache_hits_total");
    const rows = [
      ["Tokens generated", generated], ["Tokens read", read], ["Of them known", read > 0 ? `${((100 * known) / read).toFixed(0)} %` : "–"],
      ["Requests", value("tamis_requests_total")], ["Refused", value("tamis_requests_refused_total")], ["Connections", value("tamis_connections")],
      ["Memory", `${(value("process_resident_memory_bytes") / 1e6).toFixed(0)} MB`],
    ];
    this.totals.replaceChildren(...rows.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, typeof text === "number" ? text.toLocaleString("en") : text)]));
  }
}

customElements.define("tamis-live", Live);
