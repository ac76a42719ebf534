"""C++ sources as the checks see them: comments and literals told apart from code, functions found by their braces.

A heuristic, not a parser: good for code that clang-format has laid out.
"""
import dataclasses
import re

RAW_STRING = re.compile(r'R"([^()\\\s]{0,16})\(')
NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "decltype", "noexcept", "alignas", "requires", "sizeof",
                 "static_assert", "__attribute__", "__declspec", "explicit", "new", "throw"}


@dataclasses.dataclass
class Source:
    code: str  # comments and the insides of literals blanked; line breaks kept
    strings: list  # (line, text) of each string literal, escapes as written
    comments: list  # (line, text) of each comment line


@dataclasses.dataclass
class Function:
    name: str
    line: int
    n_lines: int  # of the body, without the lines of its outer braces; 0 for a declaration
    n_parameters: int


def read_source(text):
    """Splits C++ text into code, strings and comments."""
    code, strings, comments = [], [], []
    position, line = 0, 1

    def blank(piece):
        return "".join("\n" if c == "\n" else " " for c in piece)

    while position < len(text):
        char, pair = text[position], text[position:position + 2]
        raw = RAW_STRING.match(text, position) if char == "R" else None
        if pair == "//":
            end = text.find("\n", position)
            end = len(text) if end < 0 else end
            comments.append((line, text[position + 2:end]))
            piece, shown = text[position:end], blank(text[position:end])
        elif pair == "/*":
            end = text.find("*/", position + 2)
            end = len(text) if end < 0 else end + 2
            piece = text[position:end]
            comments += [(line + i, part) for i, part in enumerate(piece[2:-2].split("\n"))]
            shown = blank(piece)
        elif raw:
            closing = f"){raw.group(1)}\""
            end = text.find(closing, raw.end())
            end = len(text) if end < 0 else end + len(closing)
            piece = text[position:end]
            strings.append((line, piece[raw.end() - position:-len(closing)]))
            shown = '"' + blank(piece[1:-1]) + '"'
        elif char == '"' or (char == "'" and not (position and text[position - 1].isalnum())):
            end = position + 1
            while end < len(text) and text[end] != char and text[end] != "\n":
                end += 2 if text[end] == "\\" else 1
            end = min(end + 1, len(text))
            piece = text[position:end]
            if char == '"':
                strings.append((line, piece[1:-1]))
            shown = char + blank(piece[1:-1]) + char
        else:
            piece = shown = char
        code.append(shown)
        line += piece.count("\n")
        position += len(piece)
    return Source("".join(code), strings, comments)


def count_parameters(inside):
    """Parameters in the text between the parentheses of a parameter list."""
    depth, n_commas = 0, 0
    for index, char in enumerate(inside):
        if char in "([{<":
            depth += 1
        elif char in ")]}" or (char == ">" and inside[index - 1:index] != "-"):
            depth -= 1
        elif char == "," and depth == 0:
            n_commas += 1
    stripped = inside.strip()
    return 0 if stripped in ("", "void") else n_commas + 1


def parameter_list(head):
    """(name, inside of the parameter list) of a function's head, or None when it is not one."""
    for match in re.finditer(r"(operator\s*(?:\(\s*\)|[^\s\w(]+|\s\w+)|~?\w+)\s*\(", head):
        if match.group(1) in NOT_FUNCTIONS:
            continue
        depth = 1
        for end in range(match.end(), len(head)):
            depth += {"(": 1, ")": -1}.get(head[end], 0)
            if depth == 0:
                return match.group(1), head[match.end():end]
    return None


def kind_of_brace(head, enclosing):
    """What an opening brace begins: namespace, class, function, or anything else (block)."""
    if enclosing not in ("file", "namespace", "class"):
        return "block"
    head = re.sub(r"^\s*template\s*<[^{}]*?>\s*(?=\b(class|struct|union)\b)", "", head)
    if re.search(r"\bnamespace\b[^()]*$", head) or re.search(r'\bextern\s*"\s*"\s*$', head):
        return "namespace"
    if re.search(r"\b(class|struct|union|enum)\b[^()=]*$", head):
        return "class"
    if re.search(r"\)\s*(:|,)[^;]*\w\s*$", head) and re.search(r"\)\s*:(?!:)", head):
        return "member_init"
    if "=" in re.sub(r"operator\s*[^\s\w(]+|[=!<>]=|\([^()]*\)", "", head):
        return "block"
    return "function" if parameter_list(head) else "block"


def functions_of(code):
    """The functions defined or declared at namespace or class scope in blanked code."""
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code, flags=re.M)
    found, stack = [], [("file", 0, None)]
    start, line, head_parens = 0, 1, 0
    for position, char in enumerate(code):
        if char == "\n":
            line += 1
            continue
        enclosing = stack[-1][0]
        if char == "(":
            head_parens += 1
        elif char == ")":
            head_parens -= 1
        elif char == "{":
            head = code[start:position]
            kind = "block" if head_parens > 0 else kind_of_brace(head, enclosing)
            stack.append((kind, line, head if kind == "function" else None, head_parens, start))
            head_parens = 0
            if kind not in ("member_init",):
                start = position + 1
        elif char == "}" and len(stack) > 1:
            kind, opened, head, head_parens, begun = stack.pop()
            if kind == "function":
                name, inside = parameter_list(head)
                found.append(Function(name, opened, max(line - opened - 1, 0), count_parameters(inside)))
            start = begun if kind in ("member_init", "block") and stack[-1][0] in ("file", "namespace", "class") else position + 1
        elif char == ";" and head_parens == 0:
            head = code[start:position]
            if enclosing in ("file", "namespace", "class") and "=" not in head.split("(")[0]:
                declared = parameter_list(head)
                if declared and not re.match(r"\s*(using|typedef|return)\b", head):
                    found.append(Function(declared[0], line, 0, count_parameters(declared[1])))
            start = position + 1
    return found
