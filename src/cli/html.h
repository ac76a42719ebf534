// What the program's HTML pages share: their head with the styles, and escaping. Pages need nothing but a browser;
// plots are inline SVG whose colours follow the reader's light or dark setting through CSS variables.
#pragma once

#include <string>
#include <string_view>

namespace tamis::cli {

// From <!doctype> through the style sheet; the title and </head> are the page's to add. Classes f0 … f7 are Okabe and
// Ito's colours, which colour-blind readers can tell apart.
extern const std::string_view kHtmlHead;

// Text safe inside elements and attributes: markup escaped, bytes that are not UTF-8 and control characters replaced.
std::string html_text(std::string_view text);

}  // namespace tamis::cli
