#!/usr/bin/env python3
"""Makes jinja_expressions.json: small templates rendered by Python's jinja2 under Hugging Face's settings.

    pip install jinja2==3.1.6
    make_jinja_expressions.py                       writes jinja_expressions.json beside this file
    make_jinja_expressions.py --random N [--seed S]  prints N generated rows as JSON lines (for comparing, not stored)
    make_jinja_expressions.py --random-templates N   the same with statements
    make_jinja_expressions.py --special-casing      prints the rows of src/text/jinja/special_casing.h

Settings: ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, generation blocks, `tojson` as json.dumps without
sorting or escaping, `raise_exception`, `strftime_now` with the clock fixed at 2031-02-03 04:05:06, bos_token "<s>", eos_token "</s>".
A row is {"source", "input", "result"} or {"source", "input", "error"}.
"""
import datetime
import json
import pathlib
import random
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

CLOCK = datetime.datetime(2031, 2, 3, 4, 5, 6)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda fmt: CLOCK.strftime(fmt)
    return env


def render(source, data):
    try:
        text = environment().from_string(source).render(bos_token="<s>", eos_token="</s>", **data)
        text.encode("utf-8")
        return {"result": text}
    except Exception as e:  # every kind is "an error" to the reader of the golden
        return {"error": type(e).__name__}


DATA = {
    "s": "Hello, World", "u": "Ünïcödé ß ﬁ", "e": "", "w": "  pad \t\n", "n": 7, "z": 0, "neg": -3, "f": 2.5, "big": 9007199254740993,
    "t": True, "no": False, "nil": None, "xs": [3, 1, 2], "ys": ["b", "A", "c", "a"], "d": {"b": 1, "a": ["é<", None, True, 1.0]},
    "users": [{"name": "bob", "age": 30, "on": True}, {"name": "Al", "age": 25, "on": False}, {"name": "cy", "age": 30, "on": True}],
    "deep": {"x": {"y": [{"z": "end"}]}}, "mix": [1, "1", 1.0, None, True], "lines": "one\ntwo\r\nthree\n\nfour",
    "html": "<b>&\"'</b>", "emoji": "a😀b", "empty": [], "ed": {},
}

EXPRESSIONS = r"""
1 + 2|7 - 10|3 * 4|7 / 2|8 / 2|7 // 2|-7 // 2|7 % 3|-7 % 3|7 % -3|2 ** 10|2 ** -1|7.5 // 2|-7.5 % 2|1e3|1.5e-7|1e16|1e22|123456789012345680.0|0.1 + 0.2|1_000|0x1f|0o17|0b101
1 / 0|1 // 0|1 % 0|1.0 / 0|0 ** -1|-n|+n|- -n|-f|+t|-t|-s|not n|not z|not not s
n + 1|n + f|n + t|s + 1|1 + s|s + '!'|xs + [9]|xs + (9,)|(1, 2) + (3,)|s * 2|2 * s|xs * 2|s * -1|s * 'a'|d + d|nil + 1|missing + 1|missing ~ 1|s ~ n ~ f ~ nil ~ t
1 < 2 < 3|1 < 3 < 2|3 > 2 >= 2 != 1|1 == 1.0|1 == True|'1' == 1|nil == none|xs == [3, 1, 2]|xs == (3, 1, 2)|d == {'a': ['é<', none, true, 1.0], 'b': 1}|'a' < 'b'|'a' < 1|[1, 2] < [1, 3]|none < 1|missing == missing2|missing < 1|'Z' < 'a'|'é' > 'z'
1 in xs|9 in xs|9 not in xs|'ell' in s|'' in s|1 in s|'b' in d|'z' in d|[1] in d|1 in 5|1 in missing|'a' in nil|2 in range(5)|'x' in ('x', 'y')
n if t|n if no|n if no else 'e'|1 if no else 2 if no else 3|(n if no) is defined|t and n|no and n|no or n|z or e or 'last'|t and s and n|nil or empty or ed
n is odd|n is even|n is divisibleby 7|n is divisibleby(2)|s is string|n is number|f is float|n is integer|t is integer|t is boolean|t is true|no is false|nil is none|missing is undefined|s is defined|missing is defined|d is mapping|xs is mapping|xs is sequence|s is sequence|n is sequence|d is sequence|missing is sequence|xs is iterable|n is iterable|missing is iterable|s is iterable
s is upper|'ABC' is upper|'abc' is lower|'' is lower|'1' is upper|n is eq 7|n is equalto(7)|n is ne 7|n is gt 3|n is ge 7|n is lt 3|n is le(7)|n is lessthan 9|n is greaterthan 9|1 is in xs|9 is in(xs)|n is not odd|range is callable|n is callable|missing is callable|s is escaped|s|safe is escaped|'upper' is filter|'nope' is filter|'odd' is test|'nope' is test|nil is sameas none|t is sameas true|1 is sameas 1|xs is sameas xs|s is odd|missing is odd|s is divisibleby 2
s[0]|s[-1]|s[99]|s[1:4]|s[:3]|s[-3:]|s[::-1]|s[::2]|s[10:2:-2]|s[5:2]|s[-100:100]|u[0]|u[1:5]|emoji[1]|emoji[::-1]|xs[0]|xs[-1]|xs[5]|xs[1:]|xs[::-1]|xs[::0]|xs['a':]|xs[none:2]|(1, 2, 3)[1:]|d[0]|d['a'][0]|d[:1]|n[0]|n[0:1]|missing[0]|nil['a']|nil.a|nil.a.b|range(10)[2]|range(10)[2:5]|range(10)[::3]|range(5)[-1]|range(5)[7]|xs[true]|xs[1.0]|xs['append']|s['upper']()|xs.0|deep.x.y[0].z|deep['x']['y'][0]['z']|deep.nope|deep.nope.nope
d.items()|d.keys()|d.values()|d.items|list|d.get('a')|d.get('q')|d.get('q', 5)|d.get()|d.pop('a')|d.update({})|d.pop|d.clear|d['pop']|d.copy()|d.setdefault('k', 1)|xs.append(1)|xs.append|xs.index(1)|xs.index(9)|xs.count(3)|xs.sort()|xs.reverse|(1, 2, 2).count(2)|(1, 2).index(2)|d.nothing()|missing()|n()|s()
s.upper()|s.lower()|s.title()|s.capitalize()|s.swapcase()|u.upper()|u.lower()|u.title()|u.capitalize()|u.casefold()|'ΑΣ'.lower()|'ΑΣΑ'.lower()|'ǆ'.title()|'İ'.lower()|"they're bill's".title()|'ŉ'.upper()
w.strip()|w.lstrip()|w.rstrip()|'xxabcxx'.strip('x')|'xyabcyx'.lstrip('xy')|'abc'.rstrip('c')|'abc'.strip('')|'abc'.strip(none)|'éaé'.strip('é')|'\u3000a\u00a0'.strip()|s.strip(1)
s.split()|s.split(',')|s.split(', ')|'a  b   c'.split()|'a  b   c'.split(' ')|'a b c d'.split(' ', 2)|'a b c d'.split(maxsplit=1)|' a b '.split(none, 1)|'a,b,c'.rsplit(',', 1)|' a b  c '.rsplit(none, 1)|'a b'.rsplit()|'abc'.split('')|''.split()|''.split(',')|'aXXbXXc'.split('XX')|'aaa'.rsplit('aa')|'aaa'.split('aa')|lines.splitlines()|lines.splitlines(true)|'a\x0bb\x85c\u2028d'.splitlines()|'k=v=w'.partition('=')|'k=v=w'.rpartition('=')|'kv'.partition('=')|'kv'.rpartition('=')|'a'.partition('')
s.startswith('He')|s.startswith(('x', 'H'))|s.startswith('el', 1)|s.endswith('ld')|s.endswith(('x', 'd'))|s.startswith(1)|s.endswith('lo', 0, 5)|''.startswith('')|''.startswith('', 1)|s.find('o')|s.find('o', 5)|s.find('zz')|s.rfind('o')|s.rfind('o', 0, 5)|s.index('W')|s.index('q')|s.rindex('o')|u.find('c')|s.count('l')|s.count('')|s.count('l', 3)|'aaaa'.count('aa')
s.replace('l', 'L')|s.replace('l', 'L', 1)|s.replace('', '-')|'abc'.replace('', '-', 2)|s.replace('zz', 'y')|'aaa'.replace('aa', 'b')|s.replace('l')|s.replace(1, 2)|','.join(ys)|','.join(xs)|''.join(())|'-'.join('abc')|'-'.join(d)|s.join(1)
'abc'.center(9)|'abc'.center(8)|'abc'.center(9, '*')|'abcd'.center(9, '*')|'abc'.ljust(6)|'abc'.rjust(6, '.')|'abc'.ljust(2)|'abc'.rjust(6, 'ab')|'42'.zfill(5)|'-42'.zfill(5)|'+4'.zfill(1)|'a\tb'.expandtabs()|'a\tb'.expandtabs(4)|'abc'.removeprefix('ab')|'abc'.removesuffix('bc')|'abc'.removeprefix('x')
'123'.isdigit()|'12a'.isdigit()|''.isdigit()|'²'.isdigit()|'½'.isnumeric()|'٣'.isdecimal()|'abc'.isalpha()|'é'.isalpha()|'a1'.isalnum()|' \n'.isspace()|''.isspace()|'Ab'.istitle()|'Hello World'.istitle()|'AB'.isupper()|'ab1'.islower()|'abc'.isascii()|'é'.isascii()|'a_b'.isidentifier()|'1a'.isidentifier()|s.nothing()|s.nothing
'{} {}'.format(1, 'a')|'{1} {0}'.format(1, 2)|'{a} {b}'.format(a=1, b=2)|'{0.name}'.format(d)|'{0[b]}'.format(d)|'{:5}|'.format('a')|'{:>5}|'.format('a')|'{:^5}|'.format('a')|'{:*<5}|'.format('a')|'{:05d}'.format(42)|'{:+d}'.format(42)|'{:,}'.format(1234567)|'{:_}'.format(1234567)|'{:x} {:X} {:o} {:b} {:#x}'.format(255, 255, 8, 5, 255)|'{:.2f}'.format(3.14159)|'{:8.3f}|'.format(3.14159)|'{:e}'.format(12345.678)|'{:g}'.format(0.00001)|'{:%}'.format(0.25)|'{:.3}'.format('abcdef')|'{:.3}'.format(2.0)|'{!r} {!s}'.format('a', 'b')|'{{}}'.format()|'{}'.format()|'{'.format(1)|'}'.format(1)|'{} {0}'.format(1)|'{:d}'.format('a')|'{:>{}}'.format('a', 5)|'{x}'.format()|'{:c}'.format(65)|'{:5}|'.format(1)|'{:<5}|'.format(1)|'{:=+6}'.format(7)|'{}'.format(none)|'{:5}'.format(none)|'{}'.format(xs)|'{:}'.format(true)|'{:d}'.format(true)|'{a}'.format_map({'a': 1})
'%s %s' % (1, 'a')|'%s' % s|'%s' % (xs,)|'%d' % 3.7|'%05d' % 42|'%+d' % 5|'%-5d|' % 5|'%5s|' % 'a'|'%-5s|' % 'a'|'%.2f' % 3.14159|'%e' % 12345.678|'%g' % 0.00001|'%x %X %o %#x' % (255, 255, 8, 255)|'%c%c' % ('a', 66)|'%%'|'100%%' % ()|'%s' % ()|'%s %s' % 'a'|'%d' % 'a'|'%r' % 'a'|'%(a)s-%(b)d' % {'a': 'x', 'b': 2}|'%(q)s' % {'a': 1}|'%z' % 1|'abc' % 1|'abc' % d|'%*d' % (5, 42)|'%.3s' % 'abcdef'|'%s' % missing|'%i' % true|'%5.1f|' % 2.25|'% d' % 3|'%' % 1
s|upper|s|lower|s|title|'foo-bar (baz) o\'neil <x'|title|s|capitalize|w|trim|'xxaxx'|trim('x')|n|upper|missing|upper|nil|lower|s|replace('l', 'L')|s|replace('l', 'L', 1)|n|replace(7, 8)|s|length|xs|count|d|length|n|length|missing|length|emoji|length|s|first|s|last|xs|first|xs|last|empty|first|empty|last|d|first|d|last|ed|first is defined|n|first
xs|sort|xs|sort(reverse=true)|ys|sort|ys|sort(case_sensitive=true)|ys|sort(true)|mix|sort|users|sort(attribute='age')|map(attribute='name')|list|users|sort(attribute='age,name')|map(attribute='name')|join(',')|users|sort(attribute='name', reverse=true)|map(attribute='name')|join(',')|d|sort|s|sort|xs|reverse|list|s|reverse|d|reverse|list|n|reverse|range(4)|reverse|list
xs|join|xs|join(', ')|users|join(', ', attribute='name')|s|join('-')|missing|join|nil|join|xs|join(1)|ys|map('upper')|list|ys|map('upper')|join|users|map(attribute='age')|list|users|map(attribute='q')|list|users|map(attribute='q', default='-')|list|xs|map('nope')|list|xs|map|list|['1', '2']|map('int')|sum|[[1, 2], [3]]|map('length')|list|[[1, 2], [3]]|map(attribute=0)|list|users|map(attribute='name.0')|list|[3.7, 1.2]|map('round', 0, 'floor')|list
xs|select('odd')|list|xs|reject('odd')|list|xs|select('gt', 1)|list|mix|select|list|mix|reject|list|mix|select('string')|list|users|selectattr('on')|map(attribute='name')|list|users|rejectattr('on')|map(attribute='name')|list|users|selectattr('age', 'eq', 30)|map(attribute='name')|list|users|selectattr('name', 'in', ['bob'])|list|length|users|selectattr('q', 'defined')|list|users|selectattr|list|xs|select('nope')|list|missing|select|list|n|select|list|xs|map('string')|select('==', '1')|list
[1, 2, 1, 3]|unique|list|['a', 'A', 'b']|unique|list|['a', 'A']|unique(true)|list|users|unique(attribute='age')|map(attribute='name')|list|[1, 1.0, true, '1']|unique|list|[[1], [1]]|unique|list|xs|min|xs|max|ys|min|ys|max(case_sensitive=true)|users|min(attribute='age')|empty|min|empty|max is defined|mix|max|xs|sum|users|sum(attribute='age')|xs|sum(start=10)|[[1], [2]]|sum(start=[])|ys|sum|[0.1, 0.2]|sum
d|items|list|d|dictsort|d|dictsort(reverse=true)|{'b': 2, 'A': 1}|dictsort|{'b': 2, 'A': 1}|dictsort(true)|{'b': 2, 'A': 3}|dictsort(by='value')|{'a': 1}|dictsort(by='x')|xs|dictsort|missing|items|list|xs|items|list|range(7)|batch(3)|list|range(7)|batch(3, '-')|list|range(7)|slice(3)|list|range(7)|slice(3, 'x')|list|users|groupby('age')|map(attribute='grouper')|list|users|groupby('age')|map(attribute='list')|map('length')|list|users|groupby('q', default=1)|length|users|groupby('age')|first|first
missing|default('x')|missing|d|nil|default('x')|nil|default('x', true)|e|default('x', boolean=true)|z|d(5, true)|missing.a|default('x')|n|abs|neg|abs|f|abs|s|abs|3.456|round(2)|2.5|round|3.5|round|-2.5|round|7|round|1234|round(-2)|1250|round(-2)|3.2|round(0, 'ceil')|3.7|round(method='floor')|2.675|round(2)|f|round(1, 'x')|s|round
'42'|int|'4.9'|int|'x'|int|'x'|int(5)|'ff'|int(base=16)|'0x1A'|int(0, 16)|'0b11'|int(base=2)|4.9|int|-4.9|int|true|int|nil|int|xs|int|missing|int|' 12 '|int|'1_000'|int|'1e3'|int|''|int|'3.5'|float|'x'|float|'x'|float(1.5)|7|float|'1e-3'|float|'inf'|float|nil|float|n|string|xs|string|nil|string|t|string|f|string
d|tojson|d|tojson(ensure_ascii=True)|d|tojson(indent=2)|d|tojson(sort_keys=true)|d|tojson(separators=(',', ':'))|d|tojson(indent=1, sort_keys=true)|emoji|tojson(ensure_ascii=true)|html|tojson|lines|tojson|'\x00\x1f\x7f\x08\x0c/'|tojson|(1, 2)|tojson|{1: 'a', none: 'b', true: 'c', 1.5: 'd'}|tojson|missing|tojson|range(2)|tojson|[]|tojson(indent=2)|{}|tojson(indent=2)|[[], {}]|tojson(indent=2)|[1, {'a': [2]}]|tojson(indent=0)|big|tojson|1e100|tojson|d|tojson('x')|d|tojson(nope=1)|xs|map('tojson')|join|nil|tojson|d|tojson(indent='\t')|d.items()|tojson
html|escape|html|e|html|e|e|html|safe|html|forceescape|html|e|forceescape|(html|safe) ~ html|(html|safe) + html|html + (html|safe)|(html|e) + html|(html|safe)|upper|(html|safe)[0:3] + '<'|(html|safe) % ()|('<i>%s</i>'|safe) % html|('<i>{}</i>'|safe).format(html)|('-'|safe).join([html, 'x'])|(html|safe).replace('b', '<')|(html|safe)|replace('b', '<')|[html|safe]|(html|safe)|string is escaped|[html|safe]|join('<')|(html|safe) * 2|('a b'|safe).split()|html|striptags|'<p>a  <b>b</b> &lt;</p><!-- x -->'|striptags
'a\nb'|indent|'a\n\nb'|indent(2)|'a\n\nb'|indent(2, true)|'a\n\nb'|indent(2, blank=true)|'a\nb'|indent('>')|'a\nb\n'|indent(1)|''|indent|n|indent|s|truncate(8)|s|truncate(8, true)|s|truncate(8, true, '!')|s|truncate(8, leeway=0)|s|truncate(5, leeway=0)|s|truncate(2)|'one two three four'|truncate(12, false, '...', 0)|s|wordcount|'a-b c\'d é_1'|wordcount|s|center(20)|s|center(21)|'%s-%d'|format('a', 3)|'%(a)s'|format(a=1)|'%s'|format(1, a=2)|'a b&c/é?'|urlencode|{'a b': 'c&d', 'é': 1}|urlencode|[('a', 1), ('b', '/')]|urlencode|n|urlencode|{'a': 1, 'b': none, 'c': '<'}|xmlattr|{'a': 1}|xmlattr(false)|{'a b': 1}|xmlattr|d|pprint|s|pprint|1000|filesizeformat|1|filesizeformat|999|filesizeformat|1500000|filesizeformat|1500000|filesizeformat(true)|d|attr('b')|d|attr('items') is callable|s|attr('upper')|xs|attr('nope')|list|s|list|d|list|missing|list|n|list|(1, 2)|list
xs|batch(0)|list|s|nope|s|int|string|length|[1, 2]|first|string + 'x'|s|upper|lower|title|xs|map('float')|map('string')|join(' ')|(xs|map('string'))|length|xs|select('odd') is sequence|xs|select('odd') is iterable|'y' if xs|select('gt', 99) else 'n'|xs|select('gt', 99)|first is defined
[1, 'a', none, true, 1.5, [2], (3,), (), {'k': 'v'}, {}]|['a\'b', 'a"b', 'a\'b"c', 'a\\b', 'a\nb\t\r', 'é', '\x00\x7f\u200b\u2028\xa0', '😀', '\ue000']|{1: 2, 'a': {'b': [none]}}|(1,)|((1, 2), [3, (4,)])|range(3)|range(1, 10, 2)|[range(2)]|d.keys()|list|1.0|1e5|123456.789|1e-4|1e-5|-0.0|1e15|1e16|1.7976931348623157e308|5e-324|100000000000000000000.0|[1.0, 2]|1e308 * 10|-(1e308 * 10)|[missing]|{'a': missing}|none|true|True|None|False
namespace(a=1).a|namespace(a=1).b|namespace({'a': 2}).a|namespace(a=1)|namespace()|dict(a=1, b=2)|dict([('a', 1)])|dict({'a': 1}, b=2)|dict(1)|range()|range('a')|range(1, 2, 0)|range(100001)|range(5)|list|range(5, 0, -2)|list|range(3)|length|cycler('a', 'b').next()|joiner('-')()|cycler()|raise_exception('boom')|raise_exception()
strftime_now('%d %b %Y %H:%M:%S|%j')|strftime_now('%A %a %B %b %h %y %C %m %e')|strftime_now('%I %p %l %k %M %S')|strftime_now('%U %W %V %G %g %u %w')|strftime_now('%c')|strftime_now('%x %X %D %F %T %R %r')|strftime_now('%n%t%%')|strftime_now('%-d/%-m %_d %02d %^a %-I %-H %-M %-S %-j')|strftime_now('%f %z%Z.')|strftime_now('é 日 %Y')|strftime_now('')|strftime_now()|strftime_now is defined
''.__class__|''.__class__.__mro__|xs.__class__|d.__init__|cycler.__init__.__globals__|s['__class__']|{'__x': 1}['__x']|{'_x': 1}._x|{'items': 1}.items is callable|{'items': 1}['items']|{'a': 1}.a|{'a.b': 1}['a.b']|__builtins__|loop|joiner is defined|nil|length|'a' 'b' "c"|'\x41\u00e9\U0001F600\101\q'|"a\
b"|'it''s'|[1, 2,]|(1, 2,)|{'a': 1,}|[,]|()|1,|1, 2|{'a': 1, 'a': 2}|{xs: 1}|{(1, 2): 1}[1, 2]|s.upper|xs is divisibleby 1|1 is 2|a b|1 +|foo(|s|upper(|{{|1 == |=1|x.|.x|x[|x[1|s|'x'|"unclosed|1 if|1 is not|not|or 1|n is not
"""

TEMPLATES = r"""
{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ x }};{% endfor %}
{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }}{% endfor %}
{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}
{% for x in xs %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}
{% for x in xs %}{{ loop }}{% endfor %}
{% for x in [] %}a{% else %}none{% endfor %}
{% for x in xs %}{% break %}{% else %}else{% endfor %}
{% for x in xs %}{{ x }}{% else %}else{% endfor %}
{% for x in xs %}{% continue %}{% else %}else{% endfor %}
{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in range(10) %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in xs if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}
{% for x in xs if x > 9 %}{{ x }}{% else %}no{% endfor %}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}-{{ b }};{% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for a, b in [1] %}{{ a }}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }}{% endfor %}
{% for c in emoji %}[{{ c }}]{% endfor %}
{% for x in missing %}a{% else %}b{% endfor %}
{% for x in n %}{% endfor %}
{% for x in nil %}{% endfor %}
{% for x in range(1000000000) %}{% endfor %}
{% for x in 1, 2, 3 %}{{ x }}{% endfor %}
{% for item in deep.x.y recursive %}{{ item.z }}{% endfor %}
{% for i in [{'v': 1, 'c': [{'v': 2, 'c': [{'v': 3}]}]}, {'v': 4}] recursive %}[{{ loop.depth }}:{{ i.v }}{% if i.c %}{{ loop(i.c) }}{% endif %}]{% endfor %}
{% for i in xs %}{{ loop(xs) }}{% endfor %}
{% for x in xs %}{% for y in ys %}{{ loop.index }}{{ loop.parent }}{% endfor %}{% endfor %}
{% for x in xs %}{% set outer = loop %}{% for y in [1, 2] %}{{ outer.index }}.{{ loop.index }} {% endfor %}{% endfor %}
{% set x = 1 %}{% for i in xs %}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% for i in xs %}{{ y }}{% set y = i %}{% endfor %}{{ y }}
{% set ns = namespace(x=0) %}{% for i in xs %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}
{% set ns = namespace(found=false) %}{% for i in xs %}{% if i == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}
{% set d.x = 1 %}
{% set q.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a, b = 'xy' %}{{ a }}{{ b }}
{% set (a, b) = (1, 2) %}{{ a }}{{ b }}
{% set a, b = 1 %}
{% set x %}a{{ n }}b{% endset %}[{{ x }}]
{% set x | upper %}abc{% endset %}{{ x }}
{% set x | replace('a', 'b') | upper %}abca{% endset %}{{ x }}
{% set x = 1, %}{{ x }}
{% if n %}a{% endif %}{% if z %}b{% else %}c{% endif %}{% if no %}1{% elif nil %}2{% elif t %}3{% else %}4{% endif %}
{% if no %}{% set x = 1 %}{% endif %}{{ x is defined }}
{% if t %}{% set x = 1 %}{% endif %}{{ x }}
{% if xs and d and s and not e %}yes{% endif %}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=9) }}{{ m() }}{{ m(b=1, a=0) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(q=1) }}
{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, a=3) }}
{% macro m(a) %}{{ a }}{{ varargs|length }}{{ kwargs|dictsort }}{% endmacro %}{{ m(*[1, 2], **{'q': 1}) }}
{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body {{ n }}{% endcall %}
{% macro m() %}<{{ caller(1, 2) }}>{% endmacro %}{% call(a, b=5) m() %}{{ a }}-{{ b }}{% endcall %}
{% macro m() %}{% if caller %}{{ caller() }}{% else %}none{% endif %}{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro m(n) %}{% if n > 0 %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}
{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{% set x = 2 %}{{ m() }}
{% macro m() %}{{ i }}{% endmacro %}{% for i in xs %}{{ m() }}{% endfor %}
{% for i in xs %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{{ x }}
{% macro m(x) %}a{% endmacro %}{{ m }}{{ m.name }}{{ m.arguments }}
{% macro m(x) %}{{ x }}{% endmacro %}{{ m('<') }}{{ m('<')|e }}{{ m(m(1)) }}
{% macro m() %}a
b{% endmacro %}{{ m()|upper }}
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}
{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% filter upper %}abc{{ s }}{% endfilter %}
{% filter replace('a', 'b')|upper %}abc{% endfilter %}
{% filter nope %}abc{% endfilter %}
{% if no %}{{ s|nope }}{% endif %}ok
{{ s|nope if no else 'ok' }}
{% if t %}{{ s|nope }}{% endif %}
{% if no %}{% for x in xs %}{{ s|nope }}{% endfor %}{% endif %}ok
{% if no %}{{ s is nope }}{% endif %}ok
{% macro m() %}{{ s|nope }}{% endmacro %}ok
{% raw %}{{ x }}{% if %}{% endraw %}!
a {%- raw -%} {{ x }} {%- endraw -%} b
  {% raw %}
 x
  {% endraw %}
y
{# comment #}a{# multi
line #}b
a
  {# c #}
b
a {#- c -#} b
  {#+ c +#}
x
a
  {% if t %}
  b
  {% endif %}
c
a
  {%+ if t %}
  b
  {%+ endif +%}
c
a  {%- if t -%}  b  {%- endif -%}  c
a  {{- n -}}  b
a  {{ n }}  b
  {{ n }}
	{% if t %}	x{% endif %}	
{% if t -%}

   x

{%- endif %}
{%- for x in xs %}
  - {{ x }}
{%- endfor %}

{% for x in xs %}

{{ x }}

{% endfor %}
x {% set a = 1 %}
 y
{% generation %}{{ n }}{% endgeneration %}
{% for m in users %}{% if m.on %}{% generation %}{{ m.name }}{% endgeneration %}{% else %}{{ m.name }}|{% endif %}{% endfor %}
a
  {%- generation -%}  b {%- endgeneration -%}
c
{% generation %}{% set x = 1 %}{% endgeneration %}{{ x is defined }}
{% generation %}a
{% endif %}
{% if t %}
{% for x in xs %}
{% endfor %}a{% endfor %}
{% unknown %}
{% include 'x' %}
{% import 'x' as y %}
{% extends 'x' %}
{% from 'x' import y %}
{% block a %}in {{ n }}{% endblock %} out
{% block a %}x{% endblock a %}
{% print n, s %}
{% print %}
{% break %}
{% continue %}
{% macro m() %}{% break %}{% endmacro %}
{% for x in xs %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in xs %}{% set y %}{% break %}{% endset %}{{ x }}{% endfor %}
{% for x in xs %}{% with %}{% if x == 1 %}{% break %}{% endif %}{% endwith %}{{ x }}{% endfor %}
{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}
{% set j = joiner(', ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}
{% set j = joiner() %}{{ j() }}a{{ j() }}b
{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = ns.a + 1 %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}{{ ns }}
{% set ns = namespace(a=1) %}{% for k in ns %}{% endfor %}
{% set x = missing %}{{ x is defined }}{{ x }}
{% set m = users|map(attribute='name') %}{{ m|join }}{{ m|join }}
{% set m = users|selectattr('on')|list %}{{ m|length }}{{ m[0].name }}
{% for g in users|groupby('age') %}{{ g.grouper }}:{{ g.list|length }}:{{ g[0] }} {% endfor %}
{% for age, us in users|groupby('age') %}{{ age }}{{ us|map(attribute='name')|join }} {% endfor %}
{% for row in range(5)|batch(2, 0) %}{{ row }}{% endfor %}
{% for x in xs|sort %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for x in xs|reverse %}{{ loop.length }}{{ x }}{% endfor %}
{% for x in xs|map('string') %}{{ loop.last }}{{ x }}{% endfor %}
{{ bos_token }}{{ eos_token }}{{ bos_token ~ s }}
{{ raise_exception('no ' + s) }}
{% if 'x' not in s and s is string %}ok{% endif %}
{{ '{{' }}{{ '}}' }}{{ '{%' }}
{{ {'a': {'b': 1}} }}{{ {'a': {'b': 1}}['a'] }}
{{ [1, {'a': 2}][1].a }}
{{ "%s" | format("a") }}
{{ users[0].name }}{{ users[0]['age'] }}{{ users[-1].name }}{{ users[9] }}
{{ users[9].name }}
{{ users|map(attribute='name')|map('upper')|list|tojson }}
{{ (users|first).name }}
{{- s -}}
{{ s -}}
x
x
{{- s }}
{{ 1 }}{{ 2 }}
{{ 3 }}

{% set x = 1 -%}
   y
{%- set x = 1 %}
 z
{{ loop }}
{{ loop.index }}
{% for x in xs %}{{ n }}{% endfor %}{% set n = 1 %}{{ n }}
{% for x in xs %}{{ n }}{% endfor %}{% if t %}{% set n = 1 %}{% endif %}{{ n }}
{% set n %}{{ n }}{% endset %}{{ n }}
{{ n }}{% for x in xs %}{{ n }}{% endfor %}{% set n = 1 %}
{% set n = n + 1 %}{{ n }}
{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}
{% filter length %}a{% endfilter %}
{% set loop = 5 %}{{ loop }}{% for x in [1] %}{{ loop.index }}{% endfor %}{{ loop }}
{% set range = 3 %}{{ range }}
{% for range in [1] %}{{ range }}{% endfor %}{{ range(2)|list }}
{% set f = s.upper %}{{ f() }}
{% set f = d.get %}{{ f('b') }}
{% autoescape false %}{{ html }}{% endautoescape %}
{% call n() %}{% endcall %}
{% call s %}{% endcall %}
{% macro m(a, a) %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% set 1 = 2 %}
{% set none = 2 %}
{% for 1 in xs %}{% endfor %}
{% for x xs %}{% endfor %}
{% for x in %}{% endfor %}
{% if %}{% endif %}
{{ }}
{{ n n }}
{{ m(a=1, 2) }}
{{ m(**{}, a=1) }}
{{ dict(*[], **{'a': 1}) }}
{{ dict(a=1, a=2) }}
{{ 'a' if t else }}
{{ (1 }}
{{ 1) }}
{{ [1) }}
{% endraw %}
{# unclosed
{% raw %}
{% if t %}{{ n }}{% endif
{{ n
"""


def hand_written():
    rows = []
    for line in EXPRESSIONS.strip("\n").split("\n"):
        for part in split_expressions(line):
            rows.append("{{ " + part + " }}")
    # Filters bind to | in the list above, so a whole template may stand on each line here; "a\n  b" groups are kept by hand.
    rows += [t.replace("⏎", "\n") for t in TEMPLATES.strip("\n").split("\n")]
    rows += MULTILINE
    return rows


def split_expressions(line):
    """Cuts at | between expressions: one that is not followed by a filter name of this environment."""
    names = sorted(environment().filters) + ["nope"]
    parts, current, depth, quote = [], "", 0, None
    i = 0
    while i < len(line):
        c = line[i]
        if quote:
            current += c
            if c == "\\":
                i += 1
                current += line[i] if i < len(line) else ""
            elif c == quote:
                quote = None
        elif c in "'\"" and line.count(c, i + 1):
            quote = c
            current += c
        elif c in "([{":
            depth += 1
            current += c
        elif c in ")]}":
            depth -= 1
            current += c
        elif c == "|" and depth <= 0:
            word = ""
            for k in range(i + 1, len(line)):
                if not (line[k].isalnum() or line[k] == "_"):
                    break
                word += line[k]
            after = line[i + 1 + len(word):i + 2 + len(word)]
            if word in names and after in ("|", "(", "", " ", "["):
                current += c
            else:
                parts.append(current)
                current = ""
                depth = 0
        else:
            current += c
        i += 1
    parts.append(current)
    return [p for p in parts if p]


MULTILINE = [
    "  {% raw %}\n x\n  {% endraw %}\ny", "a\n  {# c #}\nb", "  {#+ c +#}\nx", "a\n  {% if t %}\n  b\n  {% endif %}\nc",
    "a\n  {%+ if t %}\n  b\n  {%+ endif +%}\nc", "{% if t -%}\n\n   x\n\n{%- endif %}\n", "{%- for x in xs %}\n  - {{ x }}\n{%- endfor %}\n\n",
    "{% for x in xs %}\n\n{{ x }}\n\n{% endfor %}\n", "x {% set a = 1 %}\n y", "a\n  {%- generation -%}  b {%- endgeneration -%}\nc",
    "{{ s -}}\nx", "x\n{{- s }}", "{{ 3 }}\n\n", "\n", "a\r\nb\rc\n\n", "{% set x = 1 -%}\n   y", "{%- set x = 1 %}\n z", "\t{% if t %}\tx{% endif %}\t\n",
    "{% macro m() %}\n  a\n{% endmacro %}\n[{{ m() }}]", "{{ 'a\r\nb' }}", "{{ 'a\nb'|length }}", "{#- a -#}\n\n{{ n }}\n", "a\n\n   {%- if t %}\n b\n {% endif -%}\n\n c",
    "{% if t %}  \n x{% endif %}", "  {% if t %}{% if t %}x{% endif %}{% endif %}", "x\n  {% if t %} y\n  {% endif %} z", "{% for c in 'ab' %}\n{{ c }}\n{% endfor %}\n",
    "é {% if t %}\n  日本\n  {% endif %}語", "{{ n }}\n{% if t %}\n{% endif %}\n{{ n }}", " {{ n }}\n {% set a = 1 %}\n {{ a }}",
]


class Random:
    """Expressions over DATA, mostly well-typed."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *options):
        return self.r.choice(options)

    def string_literal(self):
        return repr(self.pick("", "a", "abc", "l", " x ", "Aé", "a,b,,c", "1", "-12", "3.5", "lo W", "\n", "<&>", "😀", "%s", "{}", "ß"))

    def atom(self):
        return self.pick("s", "u", "e", "w", "n", "z", "neg", "f", "t", "no", "nil", "xs", "ys", "d", "users", "deep", "mix", "lines", "html",
                         "emoji", "empty", "ed", "missing", str(self.r.randint(-5, 20)), str(self.pick(0.5, 1.0, 2.25, 1e10)), self.string_literal())

    def number(self, depth):
        if depth <= 0:
            return self.pick("n", "z", "neg", "f", "t", str(self.r.randint(0, 30)), "1.5")
        return self.pick(
            f"({self.number(depth - 1)} {self.pick('+', '-', '*', '//', '%', '/')} {self.number(depth - 1)})", f"{self.string(depth - 1)}|length",
            f"{self.list(depth - 1)}|length", f"{self.number(depth - 1)}|abs", f"{self.number(depth - 1)}|round({self.pick('', '1', '2')})",
            f"{self.string(depth - 1)}|int", f"{self.string(depth - 1)}|float", f"{self.string(depth - 1)}.find({self.string_literal()})",
            f"{self.string(depth - 1)}.count({self.string_literal()})", f"(-{self.number(depth - 1)})")

    def string(self, depth):
        if depth <= 0:
            return self.pick("s", "u", "e", "w", "lines", "html", "emoji", self.string_literal())
        a, b = self.string(depth - 1), self.string_literal()
        i, j = self.pick("", "0", "1", "-2", "3", "-1"), self.pick("", "2", "-1", "99", "-4")
        return self.pick(
            f"{a}|{self.pick('upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'e', 'reverse', 'urlencode', 'safe', 'striptags')}",
            f"{a}.{self.pick('upper', 'lower', 'title', 'capitalize', 'strip', 'lstrip', 'rstrip', 'swapcase', 'casefold')}()",
            f"{a}.{self.pick('strip', 'lstrip', 'rstrip', 'removeprefix', 'removesuffix')}({b})", f"({a} ~ {self.any(depth - 1)})", f"({a} + {self.string(depth - 1)})",
            f"{a}[{i}:{j}]", f"{a}[{i}:{j}:{self.pick('2', '-1', '-2', '3')}]", f"{a}.replace({b}, {self.string_literal()})", f"{a}|replace({b}, {self.string_literal()}, {self.r.randint(0, 3)})",
            f"{self.list(depth - 1)}|join({b})", f"{self.any(depth - 1)}|tojson", f"{self.any(depth - 1)}|string", f"({a} * {self.r.randint(-1, 3)})", f"({b} % {self.any(depth - 1)})",
            f"{b}.join({self.list(depth - 1)}|map('string'))", f"{a}.center({self.r.randint(0, 20)})", f"{a}|truncate({self.r.randint(3, 12)}, {self.pick('true', 'false')})",
            f"{a}|indent({self.r.randint(0, 3)})", f"{a}.split({self.pick('', b)})|first", f"{a}.zfill({self.r.randint(0, 9)})", f"{b}.format({self.any(depth - 1)})")

    def list(self, depth):
        if depth <= 0:
            return self.pick("xs", "ys", "mix", "empty", "users", "range(4)", "[1, 2, 2]", "d", "s")
        a = self.list(depth - 1)
        return self.pick(
            f"{a}|list", f"({a}|list + {self.list(depth - 1)}|list)", f"{a}|sort", f"{a}|reverse|list", f"{a}|unique|list", f"{a}|map('string')|list", f"{a}|select('{self.pick('string', 'number', 'defined', 'mapping')}')|list",
            f"{a}|reject('{self.pick('string', 'none', 'number')}')|list", f"{self.string(depth - 1)}.split({self.pick('', self.string_literal())})", f"{a}|batch({self.r.randint(1, 3)})|list",
            f"{a}|slice({self.r.randint(1, 3)})|list", f"({a}|list)[{self.pick('', '1', '-1')}:{self.pick('', '2', '-1')}]", f"[{self.any(depth - 1)}, {self.any(depth - 1)}]", f"({self.any(depth - 1)}, {self.any(depth - 1)})",
            f"{self.string(depth - 1)}.splitlines()", f"{self.string(depth - 1)}|list", f"d|dictsort", f"{a}|map('{self.pick('upper', 'length', 'tojson', 'int')}')|list", f"({a}|list * {self.r.randint(0, 2)})")

    def boolean(self, depth):
        if depth <= 0:
            return self.pick("t", "no", "n > 3", "s is string")
        return self.pick(
            f"({self.any(depth - 1)} {self.pick('==', '!=', '<', '<=', '>', '>=')} {self.any(depth - 1)})", f"({self.number(depth - 1)} {self.pick('<', '>=')} {self.number(depth - 1)})",
            f"({self.any(depth - 1)} {self.pick('in', 'not in')} {self.any(depth - 1)})", f"(not {self.any(depth - 1)})", f"({self.any(depth - 1)} and {self.any(depth - 1)})", f"({self.any(depth - 1)} or {self.any(depth - 1)})",
            f"({self.any(depth - 1)} is {self.pick('', 'not ')}{self.pick('defined', 'none', 'string', 'number', 'mapping', 'sequence', 'iterable', 'true', 'false', 'boolean', 'integer', 'float', 'upper', 'lower', 'odd', 'even', 'callable', 'escaped')})",
            f"{self.string(depth - 1)}.{self.pick('startswith', 'endswith')}({self.string_literal()})", f"{self.string(depth - 1)}.{self.pick('isdigit', 'isalpha', 'isspace', 'isupper', 'islower', 'isalnum', 'istitle', 'isnumeric')}()")

    def any(self, depth):
        if depth <= 0 or self.r.random() < 0.15:
            return self.atom()
        kind = self.r.random()
        if kind < 0.35:
            return self.string(depth)
        if kind < 0.55:
            return self.number(depth)
        if kind < 0.75:
            return self.list(depth)
        if kind < 0.9:
            return self.boolean(depth)
        return self.pick(f"({self.any(depth - 1)} if {self.boolean(depth - 1)} else {self.any(depth - 1)})", f"{self.any(depth - 1)}|default({self.any(depth - 1)})",
                         f"{self.list(depth - 1)}|{self.pick('first', 'last', 'min', 'max', 'sum')}", f"({self.any(depth - 1)})[{self.pick('0', '-1', '7', repr('a'), repr('b'))}]", f"d.get({self.string_literal()}, {self.atom()})",
                         "{" + f"{self.string_literal()}: {self.any(depth - 1)}" + "}")


    def tag(self, inside, block=True):
        signs = ("", "", "", "-", "+") if block else ("", "", "-")
        begin, end = ("{%", "%}") if block else ("{{", "}}")
        return begin + self.pick(*signs) + " " + inside + " " + self.pick(*signs[:4] if block else ("", "", "-")) + end

    def text(self):
        return "".join(self.pick("a", " ", "  ", "\n", "\n", "\t", "é", "x y", "\n\n", "  \n", "}", "{ ", "%") for _ in range(self.r.randint(0, 4)))

    def statements(self, depth, in_loop=False):
        return "".join(self.text() + self.statement(depth, in_loop) for _ in range(self.r.randint(1, 3))) + self.text()

    def statement(self, depth, in_loop):
        kind = self.r.randint(0, 15) if depth > 0 else self.r.randint(10, 15)
        inner = lambda loop=in_loop: self.statements(depth - 1, loop)
        name = self.pick("a", "b", "n", "s")
        if kind == 0 or kind == 1:
            other = self.tag("else") + inner() if self.r.random() < 0.5 else ""
            middle = self.tag("elif " + self.boolean(1)) + inner() if self.r.random() < 0.3 else ""
            return self.tag("if " + self.boolean(1)) + inner() + middle + other + self.tag("endif")
        if kind in (2, 3, 4):
            condition = " if " + self.boolean(1) if self.r.random() < 0.3 else ""
            other = self.tag("else") + inner() if self.r.random() < 0.3 else ""
            return self.tag(f"for {self.pick('x', 'n', 'a')} in {self.list(1)}" + condition) + inner(True) + other + self.tag("endfor")
        if kind == 5:
            return self.tag(f"set {name}") + inner() + self.tag("endset")
        if kind == 6:
            return self.tag(f"macro {self.pick('m', 'm2')}(a, b={self.atom()})") + self.statements(depth - 1) + self.tag("endmacro")
        if kind == 7:
            return self.tag(f"with {name} = {self.any(1)}") + inner() + self.tag("endwith")
        if kind == 8:
            return self.tag(f"filter {self.pick('upper', 'trim', 'indent(2)', 'length')}") + inner() + self.tag("endfilter")
        if kind == 9:
            return self.tag("generation") + inner() + self.tag("endgeneration")
        if kind == 10:
            return self.tag(f"set {name} = {self.any(1)}")
        if kind == 11:
            return self.tag(f"{self.pick('m', 'm2')}({self.atom()})", False) if self.r.random() < 0.4 else "{#" + self.pick("", "-", "+") + " c " + self.pick("", "-") + "#}"
        if kind == 12 and in_loop:
            return self.tag(f"if {self.boolean(0)}") + self.tag(self.pick("break", "continue")) + self.tag("endif")
        if kind == 13 and in_loop:
            return self.tag("loop." + self.pick("index", "revindex", "first", "last", "length", "previtem", "nextitem", "changed(s)", "cycle(1, 2)", "depth"), False)
        if kind == 14:
            return self.tag(self.pick("a", "b", "n", "s", "x", "ns.v"), False)
        if kind == 15 and self.r.random() < 0.3:
            return self.tag(self.pick("raw", "raw")).replace("+%", "%") + " {{ x }} " + self.tag("endraw")
        return self.tag(self.any(1), False)


def main():
    if "--random-templates" in sys.argv:
        n = int(sys.argv[sys.argv.index("--random-templates") + 1])
        generator = Random(int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1)
        for _ in range(n):
            source = generator.statements(generator.r.randint(1, 3))
            print(json.dumps({"source": source, "input": DATA, **render(source, DATA)}))
        return
    if "--special-casing" in sys.argv:
        for c in map(chr, range(0x110000)):
            if len(c.upper()) > 1:
                print(f"{{0x{ord(c):04x}, {c.upper().encode()!r}, {c.title().encode()!r}}},")
        return
    if "--random" in sys.argv:
        n = int(sys.argv[sys.argv.index("--random") + 1])
        generator = Random(int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1)
        for _ in range(n):
            source = "{{ " + generator.any(generator.r.randint(1, 4)) + " }}"
            print(json.dumps({"source": source, "input": DATA, **render(source, DATA)}))
        return
    rows = [{"source": source, **render(source, DATA)} for source in dict.fromkeys(hand_written())]
    rows = [r for r in rows if " object at 0x" not in r.get("result", "") and "<function" not in r.get("result", "")]
    path = pathlib.Path(__file__).with_name("jinja_expressions.json")
    lines = ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows)
    path.write_text('{"input": ' + json.dumps(DATA, ensure_ascii=False) + ',\n"rows": [\n' + lines + "\n]}\n", encoding="utf-8")
    print(len(rows), "rows,", sum("error" in r for r in rows), "errors")


if __name__ == "__main__":
    main()
