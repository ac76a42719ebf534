// The style sheet and the escapes of HTML pages.
#include "cli/html.h"

#include "base/utf8.h"

namespace tamis::cli {

const std::string_view kHtmlHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root{color-scheme:light dark;--bg:#fdfdfc;--fg:#1c1d1f;--dim:#65686d;--line:#dcdddf;--card:#f3f3f1;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#b58900;--c5:#56b4e9;--c6:#7a5195;--c7:#888}
@media (prefers-color-scheme:dark){:root{--bg:#17181a;--fg:#e6e6e3;--dim:#9a9da3;--line:#34363a;--card:#202225;
--c0:#4aa3df;--c1:#f08a4b;--c2:#3cc49a;--c3:#dd9cc0;--c4:#e0b84c;--c5:#8bd0f5;--c6:#b08fd0;--c7:#999}}
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin:0 0 .2rem}h2{font-size:1.1rem;margin:2rem 0 .6rem}p.sub{color:var(--dim);margin:0 0 1.2rem}
.cards{display:flex;flex-wrap:wrap;gap:.8rem}.card{background:var(--card);border-radius:.5rem;padding:.6rem 1rem;min-width:8rem}
.card b{display:block;font-size:1.25rem;font-variant-numeric:tabular-nums}.card span{color:var(--dim);font-size:.85rem}
svg{max-width:100%;height:auto;display:block}svg text{fill:var(--fg);font:12px system-ui,sans-serif}svg text.dim{fill:var(--dim)}
.key{display:flex;flex-wrap:wrap;gap:.3rem 1rem;color:var(--dim);font-size:.85rem;margin:.3rem 0}
.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
table{border-collapse:collapse;width:100%;font-size:.85rem}td,th{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid var(--line);
vertical-align:top;overflow-wrap:anywhere}th{color:var(--dim);font-weight:normal}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.k{white-space:nowrap;font-family:ui-monospace,monospace}pre{background:var(--card);padding:1rem;border-radius:.5rem;overflow:auto;font-size:.8rem}
details>summary{cursor:pointer;color:var(--dim);margin:.4rem 0}
.f0{fill:var(--c0);background:var(--c0)}.f1{fill:var(--c1);background:var(--c1)}.f2{fill:var(--c2);background:var(--c2)}
.f3{fill:var(--c3);background:var(--c3)}.f4{fill:var(--c4);background:var(--c4)}.f5{fill:var(--c5);background:var(--c5)}
.f6{fill:var(--c6);background:var(--c6)}.f7{fill:var(--c7);background:var(--c7)}
</style>
)";

std::string html_text(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_sequence_length(text, i);
    const char c = text[i];
    if (length == 0 || (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')) {
      out += "\xef\xbf\xbd";
      ++i;
      continue;
    }
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out.append(text, i, length);
    }
    i += length;
  }
  return out;
}

}  // namespace tamis::cli
