// The server as the page sees it: the key, questions with plain answers, and answers that stream.

const KEY = "tamis.key";

// For this tab; where the browser allows no storage, for this visit.
let keptKey = "";
try {
  keptKey = sessionStorage.getItem(KEY) ?? "";
} catch {
  // not allowed
}

export const key = {
  get: () => keptKey,
  set(text) {
    keptKey = text;
    try {
      if (text === "") sessionStorage.removeItem(KEY);
      else sessionStorage.setItem(KEY, text);
    } catch {
      // it holds for this visit
    }
  },
};

// What the server says no with, in its words; `status` 0 when it cannot be reached.
export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (key.get() !== "") headers.Authorization = `Bearer ${key.get()}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "The server cannot be reached.");
  }
  if (response.ok) return response;
  let message = `The server answered ${response.status}.`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // no words of its own
  }
  throw new ServerError(response.status, message);
}

export const getJson = async (path) => (await ask(path)).json();
export const getText = async (path) => (await ask(path)).text();

// The data of each event of a stream (text/event-stream) as text, as they come.
export async function* eventData(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

// Asks for a chat answer. `take` gets {content, reasoning_content, tool_calls, finish_reason, usage, timings} piece by piece.
export async function streamChat(request, signal, take) {
  const response = await ask("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  let isWhole = false;
  for await (const data of eventData(response.body)) {
    if (data === "[DONE]") {
      isWhole = true;
      break;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ServerError(chunk.error.code ?? 500, chunk.error.message);
    const choice = chunk.choices?.[0];
    take({ ...choice?.delta, finish_reason: choice?.finish_reason, usage: chunk.usage, timings: chunk.timings });
  }
  if (!isWhole) throw new ServerError(0, "The answer was cut off.");
}

// A page of Prometheus's format as a map from name to the sum over its series; histograms' buckets are left out.
export function parseMetrics(text) {
  const out = new Map();
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{.*\})? ([-+0-9.eE]+|NaN|[+-]?Inf)$/.exec(line);
    if (match && !match[1].endsWith("_bucket")) out.set(match[1], (out.get(match[1]) ?? 0) + Number(match[2]));
  }
  return out;
}
