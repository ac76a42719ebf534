// <tamis-sampling>: how the next answers are drawn. What is left empty is the server's to choose. Tells "change" when it changed.
import { element } from "./dom.js";
import { loadSettings, saveSettings } from "./store.js";

const NUMBERS = [
  { name: "temperature", label: "Temperature", min: 0, max: 100, step: 0.1, usual: "0.8" },
  { name: "max_tokens", label: "Most tokens", min: 1, max: 1000000, step: 1, usual: "as fit" },
  { name: "top_p", label: "Top-p", min: 0, max: 1, step: 0.05, usual: "0.95" },
  { name: "top_k", label: "Top-k", min: 0, max: 1000000, step: 1, usual: "40" },
  { name: "min_p", label: "Min-p", min: 0, max: 1, step: 0.01, usual: "0.05" },
  { name: "seed", label: "Seed", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, usual: "drawn" },
];

class Sampling extends HTMLElement {
  connectedCallback() {
    this.settings = loadSettings();
    const field = (label, input, help) => element("div", { class: "field" }, element("label", { for: input.id }, label), input, help && element("p", { class: "quiet", id: `${input.id}-help` }, help));
    this.system = element("textarea", { id: "set-system", "aria-describedby": "set-system-help" });
    this.stop = element("textarea", { id: "set-stop", "aria-describedby": "set-stop-help" });
    this.inputs = NUMBERS.map(({ name, min, max, step, usual }) =>
      element("input", { id: `set-${name}`, name, type: "number", min, max, step: step === 1 ? 1 : "any", placeholder: usual, inputmode: "decimal" }));
    const reset = element("button", { type: "button", class: "plain" }, "Use the server’s defaults");
    reset.addEventListener("click", () => this.#reset());
    this.append(field("System prompt", this.system, "Says to the model who it is, in every conversation."),
                element("div", { class: "pair" }, ...NUMBERS.map(({ label }, i) => field(label, this.inputs[i]))),
                field("Stop at", this.stop, "Texts that end an answer, one a line; at most 16."), reset);
    this.#showSettings();
    this.addEventListener("input", () => this.#keep());
  }

  #showSettings() {
    this.system.value = this.settings.system ?? "";
    this.stop.value = (this.settings.stop ?? []).join("\n");
    for (const input of this.inputs) input.value = this.settings[input.name] ?? "";
  }

  #reset() {
    this.settings = {};
    this.#showSettings();
    saveSettings(this.settings);
  }

  #keep() {
    const settings = {};
    if (this.system.value.trim() !== "") settings.system = this.system.value;
    const stop = this.stop.value.split("\n").filter((line) => line !== "").slice(0, 16);
    if (stop.length > 0) settings.stop = stop;
    for (const input of this.inputs) if (input.value !== "" && input.checkValidity()) settings[input.name] = Number(input.value);
    this.settings = settings;
    saveSettings(settings);
  }

  // The fields of a request that these settings are.
  parameters() {
    const { system, ...parameters } = this.settings;
    return parameters;
  }

  get systemPrompt() {
    return this.settings.system ?? "";
  }
}

customElements.define("tamis-sampling", Sampling);
