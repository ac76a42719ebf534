// <tamis-message>: one message with what can be done with it. It shows what `show(message)` says and tells its wishes as events:
// "edit" (detail: the new text) and "retry".
import { copyText, element, iconButton } from "./dom.js";
import { showMarkdown } from "./markdown.js";

const number = (value, digits = 1) => value.toLocaleString("en", { maximumFractionDigits: digits });

// "48 tokens · 17.3 tokens/s · first after 0.4 s · 230 read, 192 of them known"
export function figuresText(figures) {
  const parts = [];
  if (figures.generated !== undefined) parts.push(`${figures.generated} tokens`);
  if (figures.rate > 0) parts.push(`${number(figures.rate)} tokens/s`);
  if (figures.firstMs > 0) parts.push(`first after ${number(figures.firstMs / 1000, 2)} s`);
  if (figures.prompt !== undefined) parts.push(`${figures.prompt} read${figures.cached ? `, ${figures.cached} of them known` : ""}`);
  return parts.join(" · ");
}

const ENDS = { length: "The answer ends here because the token limit is reached.", stopped: "Stopped." };

class Message extends HTMLElement {
  #parts = null;

  // Shows the message; called again and again while it grows.
  show(message, isRunning = false) {
    this.message = message;
    if (this.#parts === null) this.#build(message);
    const parts = this.#parts;
    if (message.role === "user") parts.body.textContent = message.content;
    else this.#showAnswer(message, isRunning);
    parts.tools.hidden = isRunning;
    this.setAttribute("aria-busy", String(isRunning));
  }

  #build(message) {
    const isUser = message.role === "user";
    this.setAttribute("role-name", message.role);
    this.setAttribute("role", "article");
    this.setAttribute("aria-label", isUser ? "You" : "Answer");
    const parts = {
      thoughts: element("div"), body: element("div", { class: isUser ? "body" : "body prose" }), calls: element("div"),
      error: element("p", { class: "error", role: "alert", hidden: true }), note: element("p", { class: "note", hidden: true }),
      figures: element("span", { class: "figures" }), tools: element("div", { class: "tools" }),
    };
    const copy = iconButton("copy", "Copy", async () => copy.setAttribute("title", (await copyText(this.message.content)) ? "Copied" : "The browser does not allow copying"));
    parts.tools.append(copy);
    if (isUser) parts.tools.append(iconButton("edit", "Edit and ask again", () => this.edit()));
    else parts.tools.append(iconButton("retry", "Answer again", () => this.dispatchEvent(new CustomEvent("retry", { bubbles: true }))));
    parts.tools.append(parts.figures);
    this.append(element("span", { class: "who", "aria-hidden": "true" }, isUser ? "You" : "Answer"), parts.thoughts, parts.body, parts.calls, parts.error, parts.note, parts.tools);
    this.#parts = parts;
  }

  #showAnswer(message, isRunning) {
    const parts = this.#parts;
    const isEmpty = message.content === "" && !message.reasoning && !message.tools?.length;
    if (isRunning && isEmpty) {
      if (!parts.body.querySelector(".waiting")) parts.body.replaceChildren(element("span", { class: "waiting", "aria-hidden": "true" }, element("i"), element("i"), element("i")));
      parts.body.shownBlocks = undefined;
    } else {
      parts.body.querySelector(".waiting")?.remove();
      showMarkdown(parts.body, message.content);
    }
    this.#showThoughts(message, isRunning && message.content === "");
    this.#showCalls(message.tools ?? []);
    parts.error.hidden = !message.error;
    parts.error.textContent = message.error ?? "";
    parts.note.hidden = !ENDS[message.end];
    parts.note.textContent = ENDS[message.end] ?? "";
    parts.figures.textContent = message.figures ? figuresText(message.figures) : "";
  }

  #showThoughts(message, isThinking) {
    if (!message.reasoning) return;
    const place = this.#parts.thoughts;
    if (place.childNodes.length === 0)
      place.append(element("details", { class: "thoughts" }, element("summary"), element("div", { class: "inside prose" })));
    place.querySelector("summary").textContent = isThinking ? "Thinking…" : "Thoughts";
    showMarkdown(place.querySelector(".inside"), message.reasoning);
  }

  #showCalls(tools) {
    const place = this.#parts.calls;
    tools.forEach((tool, i) => {
      if (place.childNodes.length <= i)
        place.append(element("details", { class: "call", open: true }, element("summary"), element("div", { class: "inside prose" }, element("pre", { tabindex: "0", "aria-label": "Arguments" }, element("code")))));
      const call = place.childNodes[i];
      call.querySelector("summary").textContent = `Calls ${tool.name}`;
      call.querySelector("code").textContent = pretty(tool.arguments);
    });
  }

  // Turns the text of the user's message into a box.
  edit() {
    const { body, tools } = this.#parts;
    const open = this.querySelector(".editor textarea");
    if (open) return open.focus();
    const box = element("textarea", { "aria-label": "Edit the message" });
    box.value = this.message.content;
    const close = () => {
      editor.remove();
      body.hidden = tools.hidden = false;
      tools.querySelector("button:nth-child(2)").focus();
    };
    const save = () => {
      const text = box.value.trim();
      close();
      if (text !== "") this.dispatchEvent(new CustomEvent("edit", { bubbles: true, detail: text }));
    };
    const cancel = element("button", { type: "button", class: "plain" }, "Cancel");
    const ask = element("button", { type: "button", class: "strong" }, "Ask again");
    const editor = element("div", { class: "editor" }, box, element("div", { class: "row" }, cancel, ask));
    cancel.addEventListener("click", close);
    ask.addEventListener("click", save);
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        save();
      } else {
        return;
      }
      event.stopPropagation();
    });
    body.hidden = tools.hidden = true;
    body.after(editor);
    box.focus();
  }
}

// JSON with line breaks where it is JSON already; a stream's half-written one as it is.
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

customElements.define("tamis-message", Message);
