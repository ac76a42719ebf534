// Small ways to make elements. Text goes in as text nodes only; nothing on this page parses HTML out of a string.

const SVG = "http://www.w3.org/2000/svg";

// element("p", {class: "quiet"}, "text", child): null and false are no children.
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(out, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) out.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) out.setAttribute(key, value);
  }
  out.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return out;
}

export function icon(name) {
  return svg("svg", { "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));
}

// A button that shows an icon and is called `label`.
export function iconButton(name, label, action) {
  const button = element("button", { type: "button", class: "icon small", "aria-label": label, title: label }, icon(name));
  button.addEventListener("click", action);
  return button;
}

export const byId = (id) => document.getElementById(id);

// Puts text where "paste" finds it; false where the browser allows no such thing.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
