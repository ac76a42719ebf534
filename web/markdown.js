// Markdown as models write it, to nodes: headings, lists, quotes, tables, code, emphasis, links. A model's text is hostile until
// proven otherwise: it becomes text nodes and the few elements made here, links go to http, https and mailto only, pictures are
// never fetched, and both nesting and the search for a closing mark are bounded.
import { copyText, element, iconButton } from "./dom.js";

const MAX_DEPTH = 12;
const MAX_SPAN = 4000; // characters between an opening mark and its closing one

// Each takes time in proportion to its line: no two parts of one could share a run of blanks.
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/; // then the language, between blanks
const HEADING = /^ {0,3}(#{1,6})(?:\s+(\S.*)?)?$/; // then its text, with blanks and #s behind it
const RULE = /^ {0,3}([-*_])\s*(?:\1\s*){2,}$/;
const ITEM = /^(\s*)(?:([-*+])|(\d{1,9})[.)])(\s+|$)/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^\s*(?:\|\s*)?:?-+:?(?:\s*\|\s*:?-+:?)*\s*(?:\|\s*)?$/;

// Shows `text` in `place`. Blocks that were there before and have not changed stay as they are, so that a stream costs its last
// block only, and what is selected or focused stays so.
export function showMarkdown(place, text) {
  const sources = splitBlocks(text.split("\n"));
  const shown = place.shownBlocks ?? [];
  let same = 0;
  while (same < sources.length && same < shown.length && sources[same] === shown[same]) ++same;
  while (place.childNodes.length > same) place.lastChild.remove();
  for (const source of sources.slice(same)) place.append(block(source.split("\n"), 0));
  place.shownBlocks = sources;
}

// The source of each block of these lines.
function splitBlocks(lines) {
  const out = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === "") {
      ++at;
      continue;
    }
    const end = blockEnd(lines, at);
    out.push(lines.slice(at, end).join("\n"));
    at = end;
  }
  return out;
}

function isTable(lines, at) {
  return at + 1 < lines.length && lines[at].includes("|") && DIVIDER.test(lines[at + 1]) && lines[at + 1].includes("-");
}

// Without the #s that may close it, which stand behind a blank.
function headingText(behind) {
  const text = behind.trimEnd();
  let end = text.length;
  while (end > 0 && text[end - 1] === "#") --end;
  return end === 0 || /\s/.test(text[end - 1]) ? text.slice(0, end).trimEnd() : text;
}

// The line after the block that begins at `at`.
function blockEnd(lines, at) {
  const fence = FENCE.exec(lines[at]);
  if (fence) {
    const close = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
    let end = at + 1;
    while (end < lines.length && !close.test(lines[end])) ++end;
    return Math.min(end + 1, lines.length);
  }
  if (HEADING.test(lines[at]) || RULE.test(lines[at])) return at + 1;
  let end = at + 1;
  if (QUOTE.test(lines[at])) {
    while (end < lines.length && lines[end].trim() !== "") ++end;
    return end;
  }
  if (isTable(lines, at)) {
    while (end < lines.length && lines[end].includes("|")) ++end;
    return end;
  }
  const item = ITEM.exec(lines[at]);
  if (item) return listEnd(lines, at, item);
  while (end < lines.length && lines[end].trim() !== "" && !beginsBlock(lines, end)) ++end;
  return end;
}

function beginsBlock(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line) || isTable(lines, at);
}

// A list goes on over items of its kind, indented lines, and one blank line before either.
function listEnd(lines, at, first) {
  let end = at + 1;
  while (end < lines.length) {
    const next = lines[end].trim() === "" ? end + 1 : end;
    if (next >= lines.length || lines[next].trim() === "") break;
    const item = ITEM.exec(lines[next]);
    const goesOn = /^\s{2,}/.test(lines[next]) || (item && Boolean(item[2]) === Boolean(first[2]) && !RULE.test(lines[next]));
    const isLazy = next === end && !beginsBlock(lines, next);
    if (!goesOn && !isLazy) break;
    end = next + 1;
  }
  return end;
}

function block(lines, depth) {
  const first = lines[0];
  const fence = FENCE.exec(first);
  if (fence) return codeBlock(lines, fence);
  const heading = HEADING.exec(first);
  if (heading) return element(`h${heading[1].length}`, {}, ...inline(headingText(heading[2] ?? ""), 0));
  if (RULE.test(first)) return element("hr");
  if (depth < MAX_DEPTH) {
    if (QUOTE.test(first)) return element("blockquote", {}, ...blocks(lines.map((line) => line.replace(QUOTE, "")), depth + 1));
    if (isTable(lines, 0)) return table(lines);
    if (ITEM.test(first)) return list(lines, depth);
  }
  return element("p", {}, ...withBreaks(lines.map((line) => line.trim())));
}

function blocks(lines, depth) {
  return splitBlocks(lines).map((source) => block(source.split("\n"), depth));
}

// Lines of one paragraph: a break is kept where the model made one.
function withBreaks(lines) {
  return inline(lines.join("\n"), 0);
}

function codeBlock(lines, fence) {
  const isClosed = lines.length > 1 && new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`).test(lines[lines.length - 1]);
  const text = lines.slice(1, isClosed ? -1 : undefined).join("\n");
  const copy = iconButton("copy", "Copy the code", async () => {
    const isCopied = await copyText(text);
    copy.setAttribute("aria-label", isCopied ? "Copied" : "The browser does not allow copying");
  });
  return element("div", { class: "code" }, element("div", { class: "head" }, element("span", {}, fence[2].trim().split(/\s/, 1)[0] || "code"), copy),
                 element("pre", { tabindex: "0", "aria-label": "Code" }, element("code", {}, text)));
}

function list(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const indent = first[1].length;
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent + 1) items.push([line.slice(item[0].length)]);
    else items[items.length - 1].push(line.replace(/^(?: {1,4}|\t)/, ""));
  }
  const start = first[3] && first[3] !== "1" ? Number(first[3]) : null;
  return element(first[2] ? "ul" : "ol", { start }, ...items.map((item) => listItem(item, depth)));
}

function listItem(lines, depth) {
  const parts = blocks(lines, depth + 1);
  const isPlain = parts.length > 0 && parts[0].tagName === "P" && parts.slice(1).every((part) => part.tagName !== "P");
  return element("li", {}, ...(isPlain ? [...parts[0].childNodes, ...parts.slice(1)] : parts));
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const row = (line, name) => element("tr", {}, ...cells(line).map((cell) => element(name, name === "th" ? { scope: "col" } : {}, ...inline(cell, 0))));
  const body = element("tbody", {}, ...lines.slice(2).map((line) => row(line, "td")));
  return element("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" }, element("table", {}, element("thead", {}, row(lines[0], "th")), body));
}

const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];
const BARE_LINK = /^https?:\/\/[^\s<>"'`]+/;
const isWord = (character) => character !== undefined && /[\p{L}\p{N}_]/u.test(character);

// Nodes of a run of text.
function inline(text, depth) {
  const out = [];
  let plain = "";
  const flush = () => {
    if (plain !== "") out.push(plain);
    plain = "";
  };
  let at = 0;
  while (at < text.length) {
    const found = span(text, at, depth);
    if (found) {
      flush();
      out.push(...found.nodes);
      at = found.end;
    } else {
      plain += text[at];
      ++at;
    }
  }
  flush();
  return out;
}

// What begins at `at` and is more than a character: {nodes, end}, or null.
function span(text, at, depth) {
  const character = text[at];
  if (character === "\n") return { nodes: [element("br")], end: at + 1 };
  if (character === "\\" && /[\\`*_{}[\]()#+\-.!~>|]/.test(text[at + 1] ?? "")) return { nodes: [text[at + 1]], end: at + 2 };
  if (character === "`") return codeSpan(text, at);
  if (character === "h" && !isWord(text[at - 1])) return bareLink(text, at);
  if (depth >= MAX_DEPTH) return null;
  if (character === "[" || (character === "!" && text[at + 1] === "[")) return link(text, at, depth);
  if (character === "*" || character === "_" || character === "~") return emphasis(text, at, depth);
  return null;
}

function find(text, mark, from) {
  const end = text.slice(from, from + MAX_SPAN).indexOf(mark);
  return end < 0 ? -1 : from + end;
}

function codeSpan(text, at) {
  let n = 1;
  while (text[at + n] === "`" && n < 8) ++n;
  const end = find(text, "`".repeat(n), at + n);
  if (end < 0) return null;
  return { nodes: [element("code", {}, text.slice(at + n, end).replace(/^ (.*) $/s, "$1"))], end: end + n };
}

function emphasis(text, at, depth) {
  for (const [mark, name] of MARKS) {
    if (!text.startsWith(mark, at)) continue;
    const from = at + mark.length;
    if (from >= text.length || /\s/.test(text[from]) || (mark[0] === "_" && isWord(text[at - 1]))) return null;
    let end = find(text, mark, from + 1);
    if (mark.length === 1 && end >= 0 && text[end + 1] === mark) end = find(text, mark, end + 2); // not half of a longer mark
    if (end < 0 || /\s/.test(text[end - 1]) || (mark[0] === "_" && isWord(text[end + mark.length]))) continue;
    return { nodes: [element(name, {}, ...inline(text.slice(from, end), depth + 1))], end: end + mark.length };
  }
  return null;
}

// The address as a link may have it, or null.
function safeAddress(text) {
  if (!/^(?:https?:\/\/|mailto:)/i.test(text)) return null;
  try {
    return new URL(text).href;
  } catch {
    return null;
  }
}

function anchor(address, ...children) {
  return element("a", { href: address, rel: "noopener noreferrer nofollow", target: "_blank" }, ...children);
}

function link(text, at, depth) {
  const isPicture = text[at] === "!";
  const from = at + (isPicture ? 2 : 1);
  const middle = find(text, "](", from);
  if (middle < 0) return null;
  const end = find(text, ")", middle + 2);
  if (end < 0) return null;
  const label = text.slice(from, middle);
  const address = safeAddress(text.slice(middle + 2, end).trim().split(/\s/)[0]);
  if (address === null) return null; // stays as it was written
  return { nodes: [isPicture ? anchor(address, `Picture: ${label || address}`) : anchor(address, ...inline(label, depth + 1))], end: end + 1 };
}

function bareLink(text, at) {
  const match = BARE_LINK.exec(text.slice(at, at + MAX_SPAN));
  if (!match) return null;
  const shown = match[0].replace(/[.,;:!?)\]*]+$/, "");
  const address = safeAddress(shown);
  return address === null ? null : { nodes: [anchor(address, shown)], end: at + shown.length };
}
