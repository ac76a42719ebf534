// The page's parts put together: conversations, the running answer, panels, keys.
import { getJson, key, ServerError, streamChat } from "./api.js";
import { byId, element, iconButton } from "./dom.js";
import { dropChat, loadChats, loadModel, loadTheme, newChat, saveChat, saveModel, saveTheme, watchChats } from "./store.js";
import { stateOf } from "./model.js";
import "./message.js";
import "./sampling.js";
import "./live.js";

const IDEAS = ["Explain how a sieve works", "Write a haiku about rain", "Name three rivers and where they end"];
const isNarrow = matchMedia("(max-width: 899.98px)");

const draft = byId("draft");
const messages = byId("messages");
const scroller = byId("scroller");
const sampling = document.querySelector("tamis-sampling");
const live = document.querySelector("tamis-live");

let chats = loadChats();
let chat = chats[0] ?? newChat();
let running = null; // {abort, message, element}

const say = (text) => { byId("status").textContent = text; };

// ---- conversations

function keep() {
  const first = chat.messages[0]?.content ?? "";
  chat.title = first.split("\n")[0].slice(0, 80);
  chats = saveChat(chat);
  showChats();
}

function showChats() {
  byId("chat-list").replaceChildren(...chats.map((one) => {
    const open = element("button", { type: "button", class: "open", title: one.title }, one.title || "Conversation");
    open.addEventListener("click", () => openChat(one));
    const remove = iconButton("delete", `Delete “${one.title || "Conversation"}”`, () => deleteChat(one));
    return element("li", { "aria-current": one.id === chat.id ? "true" : null }, open, remove);
  }));
}

function openChat(one) {
  stop();
  chat = one;
  showChats();
  showMessages();
  if (isNarrow.matches) drawChats(false);
  draft.focus();
}

function deleteChat(one) {
  const isOpen = one.id === chat.id;
  if (isOpen) stop();
  chats = dropChat(one);
  if (isOpen) openChat(chats[0] ?? newChat());
  else showChats();
}

// What another tab did to the conversation shown here is shown, unless an answer is being written into it or a message edited.
watchChats((stored) => {
  chats = stored;
  const same = chats.find((one) => one.id === chat.id);
  if (same && running === null && !messages.querySelector(".editor")) {
    chat = same;
    showMessages();
  }
  showChats();
});

// ---- messages

function showMessages() {
  messages.replaceChildren(...chat.messages.map((message) => messageElement(message)));
  byId("empty").hidden = chat.messages.length > 0;
  messages.hidden = chat.messages.length === 0;
  scroller.scrollTop = scroller.scrollHeight;
}

function messageElement(message, isRunning = false) {
  const out = element("tamis-message");
  out.show(message, isRunning);
  out.addEventListener("edit", (event) => askAgain(chat.messages.indexOf(message), event.detail));
  out.addEventListener("retry", () => answerAgain(chat.messages.indexOf(message)));
  return out;
}

function append(message, isRunning) {
  const isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 120;
  const out = messageElement(message, isRunning);
  chat.messages.push(message);
  byId("empty").hidden = true;
  messages.hidden = false;
  messages.append(out);
  if (isAtEnd || message.role === "user") scroller.scrollTop = scroller.scrollHeight;
  return out;
}

function cutAt(n) {
  stop();
  chat.messages.length = n;
  while (messages.childNodes.length > n) messages.lastChild.remove();
}

function askAgain(at, text) {
  cutAt(at);
  ask(text);
}

// Answers the message before `at` anew.
function answerAgain(at) {
  if (at < 1) return;
  cutAt(at);
  answer();
}

function ask(text) {
  append({ role: "user", content: text }, false);
  answer();
}

// ---- the running answer

function request() {
  const history = chat.messages.filter((message) => message.role === "user" || message.content !== "");
  const list = history.map(({ role, content }) => ({ role, content }));
  if (sampling.systemPrompt !== "") list.unshift({ role: "system", content: sampling.systemPrompt });
  const choice = byId("model-choice");
  return { ...(choice.hidden ? {} : { model: choice.value }), messages: list, ...sampling.parameters() };
}

function take(message, piece) {
  if (piece.content) message.content += piece.content;
  if (piece.reasoning_content) message.reasoning = (message.reasoning ?? "") + piece.reasoning_content;
  for (const call of piece.tool_calls ?? []) {
    message.tools ??= [];
    message.tools[call.index ?? 0] ??= { name: "", arguments: "" };
    const tool = message.tools[call.index ?? 0];
    tool.name += call.function?.name ?? "";
    tool.arguments += call.function?.arguments ?? "";
  }
  if (piece.finish_reason) message.end = piece.finish_reason;
  if (piece.usage) {
    message.figures = {
      generated: piece.usage.completion_tokens, prompt: piece.usage.prompt_tokens, cached: piece.usage.prompt_tokens_details?.cached_tokens,
      rate: piece.timings?.predicted_per_second, firstMs: piece.timings?.first_token_ms,
    };
  }
}

async function answer() {
  const body = request();
  const message = { role: "assistant", content: "" };
  const out = append(message, true);
  const mine = { abort: new AbortController(), message, element: out };
  running = mine;
  showRunning(true);
  say("The answer begins.");
  let isShownSoon = false;
  const showSoon = () => {
    if (isShownSoon) return;
    isShownSoon = true;
    requestAnimationFrame(() => {
      isShownSoon = false;
      if (running !== mine) return;
      const isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
      out.show(message, true);
      if (isAtEnd) scroller.scrollTop = scroller.scrollHeight;
    });
  };
  try {
    await streamChat(body, mine.abort.signal, (piece) => {
      take(message, piece);
      showSoon();
    });
  } catch (error) {
    if (mine.abort.signal.aborted) message.end = "stopped";
    else message.error = error instanceof ServerError ? error.message : "The answer cannot be read.";
    if (error.status === 401) askForKey(true);
  }
  finishAnswer(mine);
}

function finishAnswer(mine) {
  const isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 120;
  mine.element.show(mine.message, false);
  if (isAtEnd) scroller.scrollTop = scroller.scrollHeight;
  if (running === mine) {
    running = null;
    showRunning(false);
    say(mine.message.error ? "The answer failed." : `The answer is complete: ${mine.message.figures?.generated ?? 0} tokens.`);
  }
  if (chat.messages.includes(mine.message)) keep();
  if (!byId("model-choice").hidden) showModel(); // it has been loaded for this answer, or not
}

function showRunning(isRunning) {
  const send = byId("send");
  send.setAttribute("aria-label", isRunning ? "Stop" : "Send");
  send.querySelector("use").setAttribute("href", isRunning ? "#i-stop" : "#i-send");
}

function stop() {
  if (running === null) return false;
  running.abort.abort();
  running.message.end = "stopped";
  running.element.show(running.message, false);
  running = null;
  showRunning(false);
  say("Stopped.");
  keep();
  return true;
}

// ---- the box

function fitDraft() {
  draft.style.height = "auto";
  draft.style.height = `${draft.scrollHeight + 2}px`;
}

function sendDraft() {
  const text = draft.value.trim();
  if (text === "") return;
  draft.value = "";
  fitDraft();
  ask(text);
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!stop()) sendDraft();
});
draft.addEventListener("input", fitDraft);
draft.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (running === null) sendDraft();
  } else if (event.key === "ArrowUp" && draft.value === "" && running === null) {
    const mine = [...messages.children].filter((one) => one.message.role === "user").at(-1);
    if (mine) {
      event.preventDefault();
      mine.edit();
    }
  }
});

// ---- panels

function drawChats(isDrawn) {
  byId("chats").classList.toggle(isNarrow.matches ? "drawn" : "shut", isNarrow.matches ? isDrawn : !isDrawn);
  byId("toggle-chats").setAttribute("aria-expanded", String(isDrawn));
}

const areChatsDrawn = () => getComputedStyle(byId("chats")).display !== "none";

const tabs = [...document.querySelectorAll("[role=tab]")];

function choose(tab) {
  for (const other of tabs) {
    other.setAttribute("aria-selected", String(other === tab));
    other.tabIndex = other === tab ? 0 : -1;
    byId(other.getAttribute("aria-controls")).hidden = other !== tab;
  }
  if (tab.id === "tab-live" && !byId("panel").hidden) live.start();
  else live.stop();
  if (tab.id === "tab-model") showModel();
}

function showPanel(isShown) {
  byId("panel").hidden = !isShown;
  byId("toggle-panel").setAttribute("aria-expanded", String(isShown));
  const chosen = tabs.find((tab) => tab.getAttribute("aria-selected") === "true");
  if (isShown) {
    choose(chosen);
    if (isNarrow.matches) drawChats(false);
    chosen.focus();
  } else {
    live.stop();
  }
}

for (const tab of tabs) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
    choose(next);
    next.focus();
  });
}
byId("toggle-chats").addEventListener("click", () => drawChats(!areChatsDrawn()));
byId("toggle-panel").addEventListener("click", () => showPanel(byId("panel").hidden));
byId("close-panel").addEventListener("click", () => {
  showPanel(false);
  byId("toggle-panel").focus();
});
byId("new-chat").addEventListener("click", () => openChat(newChat()));
byId("show-keys").addEventListener("click", () => byId("shortcuts").showModal());

// ---- colours

const THEMES = { auto: "as the system", light: "light", dark: "dark" };

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").setAttribute("aria-label", `Colours: ${THEMES[theme]}`);
  byId("theme").setAttribute("title", `Colours: ${THEMES[theme]}`);
}

byId("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const theme = names[(names.indexOf(loadTheme()) + 1) % names.length];
  saveTheme(theme);
  setTheme(theme);
});

// ---- the key and the model

function askForKey(isRefused) {
  const dialog = byId("key-dialog");
  if (dialog.open) return;
  byId("key-title").textContent = isRefused && key.get() !== "" ? "The server does not know this key" : "This server asks for a key";
  byId("key").value = "";
  dialog.showModal();
}

byId("key-cancel").addEventListener("click", () => byId("key-dialog").close("cancel"));
byId("key-dialog").addEventListener("close", () => {
  if (byId("key-dialog").returnValue !== "ok" || byId("key").value === "") return;
  key.set(byId("key").value.trim());
  byId("key").value = "";
  showModel();
  draft.focus();
});

// One model is a name, several are a choice; `model` the one that answers.
function showChoice(models, model) {
  const choice = byId("model-choice");
  choice.hidden = models.length < 2;
  byId("model-name").hidden = !choice.hidden;
  byId("model-name").textContent = model?.id ?? "";
  const names = models.map(({ id, status }) => (status?.value === "loaded" ? id : `${id} (${stateOf(status)})`));
  if ([...choice.options].map((option) => option.text).join("\n") !== names.join("\n")) // an open list stays open
    choice.replaceChildren(...models.map(({ id }, i) => element("option", { value: id }, names[i])));
  if (model !== null) choice.value = model.id;
}

byId("model-choice").addEventListener("change", (event) => {
  saveModel(event.target.value);
  showModel();
  draft.focus();
});

async function showModel() {
  try {
    const models = (await getJson("/v1/models")).data;
    const model = models.find((one) => one.id === loadModel()) ?? models[0] ?? null;
    showChoice(models, model);
    const isThere = model !== null && (model.status?.value ?? "loaded") === "loaded"; // one of several may not be
    const props = isThere ? await getJson(models.length > 1 ? `/props?model=${encodeURIComponent(model.id)}` : "/props") : null;
    byId("greeting-model").textContent = model === null ? "The model is being loaded." : `${model.id} answers here.`;
    document.querySelector("tamis-model").show(model, props);
    if (model === null) setTimeout(showModel, 1000);
  } catch (error) {
    byId("greeting-model").textContent = error.message;
    document.querySelector("tamis-model").show(null, null);
    if (error.status === 401) askForKey(true);
  }
}

// ---- keys of the keyboard

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  const isTyping = event.target.closest?.("input, textarea") !== null;
  if (event.key === "Escape") {
    if (stop()) return;
    if (isNarrow.matches && areChatsDrawn()) drawChats(false);
    else if (!byId("panel").hidden) showPanel(false);
    draft.focus();
  } else if (event.altKey && !event.ctrlKey && !event.metaKey) {
    const actions = {
      KeyN: () => openChat(newChat()),
      KeyS: () => showPanel(byId("panel").hidden),
      KeyR: () => chat.messages.at(-1)?.role === "assistant" && answerAgain(chat.messages.length - 1),
    };
    if (!actions[event.code]) return;
    event.preventDefault();
    actions[event.code]();
  } else if (!isTyping && !event.ctrlKey && !event.metaKey) {
    if (event.key === "/") {
      event.preventDefault();
      draft.focus();
    } else if (event.key === "?") {
      byId("shortcuts").showModal();
    }
  }
});

byId("ideas").append(...IDEAS.map((idea) => {
  const button = element("button", { type: "button" }, idea);
  button.addEventListener("click", () => ask(idea));
  return button;
}));
setTheme(loadTheme());
drawChats(!isNarrow.matches);
isNarrow.addEventListener("change", () => {
  byId("chats").classList.remove("drawn", "shut");
  drawChats(!isNarrow.matches);
});
showChats();
showMessages();
showModel();
draft.focus();
