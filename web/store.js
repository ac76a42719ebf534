// What the browser keeps between visits: conversations and settings. Nothing of it is sent but what a question needs.

const CHATS = "tamis.conversations";
const SETTINGS = "tamis.settings";
const MODEL = "tamis.model";

function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false; // full, or not allowed
  }
}

const isMessage = (message) => ["user", "assistant"].includes(message?.role) && typeof message.content === "string";
const isChat = (chat) => typeof chat?.id === "string" && Array.isArray(chat.messages) && chat.messages.every(isMessage);

let notStored = null; // the conversations of this visit, where the browser stores nothing

// [{id, title, messages: [{role, content, reasoning?, tools?, figures?, error?, end?}]}], the newest first.
export function loadChats() {
  const chats = notStored ?? read(CHATS, []);
  return Array.isArray(chats) ? chats.filter(isChat) : [];
}

// When there is no room, the oldest conversations go.
function saveChats(chats) {
  notStored = null;
  for (let n = chats.length; n > 0; n = Math.floor(n / 2)) if (write(CHATS, chats.slice(0, n))) return;
  if (chats.length > 0 || !write(CHATS, [])) notStored = chats;
}

// Other tabs write to the same list, so one conversation is put into what is stored now. Both return the list.
export function saveChat(chat) {
  const chats = loadChats();
  const at = chats.findIndex((other) => other.id === chat.id);
  if (at < 0) chats.unshift(chat);
  else chats[at] = chat;
  saveChats(chats);
  return chats;
}

export function dropChat(chat) {
  const chats = loadChats().filter((other) => other.id !== chat.id);
  saveChats(chats);
  return chats;
}

// Calls `onChange` with the list when another tab has changed it.
export function watchChats(onChange) {
  addEventListener("storage", (event) => {
    if (event.key === CHATS || event.key === null) onChange(loadChats());
  });
}

export const newChat = () => ({ id: crypto.getRandomValues(new Uint32Array(2)).join("-"), title: "", messages: [] });

export const loadSettings = () => ({ ...read(SETTINGS, {}) });
export const saveSettings = (settings) => write(SETTINGS, settings);

// The name of the model that shall answer, where the server has several.
let chosenModel = null;
export const loadModel = () => chosenModel ?? read(MODEL, null);
export function saveModel(name) {
  chosenModel = name;
  write(MODEL, name);
}

export const loadTheme = () => {
  try {
    return localStorage.getItem("tamis.theme") ?? "auto";
  } catch {
    return "auto";
  }
};
export function saveTheme(theme) {
  try {
    localStorage.setItem("tamis.theme", theme);
  } catch {
    // it holds for this visit
  }
}
