// <tamis-model>: what is served, in figures.
import { element } from "./dom.js";

const count = new Intl.NumberFormat("en");

function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let i = 0;
  let value = bytes;
  for (; value >= 1000 && i < units.length - 1; ++i) value /= 1000;
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : 1 })} ${units[i]}`;
}

const STATES = { unloaded: "loaded when asked", loading: "being loaded", loaded: "in memory" };

// What /v1/models says of one model, in words; undefined where it says nothing.
export const stateOf = (status) => (status?.failed ? "could not be loaded" : STATES[status?.value]);

class Model extends HTMLElement {
  // Of /v1/models and /props; null while there is none.
  show(model, props) {
    if (model === null) {
      this.replaceChildren(element("p", { class: "quiet" }, "No model is loaded yet."));
      return;
    }
    const meta = model.meta ?? {};
    const facts = [
      ["Name", model.id],
      ["State", stateOf(model.status)],
      ["Type", meta.type],
      ["Parameters", meta.n_params && count.format(meta.n_params)],
      ["File", meta.size && size(meta.size)],
      ["Vocabulary", meta.n_vocab && `${count.format(meta.n_vocab)} tokens`],
      ["Context", meta.n_ctx && `${count.format(meta.n_ctx)} tokens`],
      ["Trained for", meta.n_ctx_train && `${count.format(meta.n_ctx_train)} tokens`],
      ["Answers at once", props?.total_slots && count.format(props.total_slots)],
      ["Loaded", model.created && new Date(model.created * 1000).toLocaleString()],
      ["Server", props?.build_info],
    ];
    const rows = facts.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
    this.replaceChildren(element("dl", { class: "facts" }, ...rows));
  }
}

customElements.define("tamis-model", Model);
