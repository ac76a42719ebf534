#!/usr/bin/env python3
"""Checks structured output without a model, against the Python packages `jsonschema` and `hypothesis-jsonschema`.

For random schemas (and some written by hand): answers drawn at random under the mask are JSON that validates, and valid instances
made by hypothesis are accepted token by token. Members of instances are put into the schema's order first: that is the order an
answer has (docs/structured-output.md).

usage: scripts/check_grammars.py [--schemas 500] [--samples 20] [--instances 5] [--seed 1] [--driver build/release/grammar_driver]
                                 VOCAB.gguf…

Samples are drawn under the first vocabulary, instances are tried under all. Prints what fails; exit 1 then.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent

HAND_WRITTEN = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
                                      "email": {"type": "string", "format": "email"}, "tags": {"type": "array", "items": {"type": "string"}}},
     "required": ["name", "age"], "additionalProperties": False},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {
        "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}},
        "required": ["value"], "additionalProperties": False}}},
    {"anyOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number", "exclusiveMinimum": 0, "maximum": 100}},
                "required": ["kind", "r"]},
               {"type": "object", "properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["kind"]}]},
    {"type": "object", "patternProperties": {"^x_[a-z]+$": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}, "maxProperties": 3},
    {"type": "array", "prefixItems": [{"type": "string", "format": "date"}, {"enum": ["a", "é", "\"\\", 1.5, None]}], "items": {"type": "null"}},
    {"type": "string", "pattern": "(foo|b[aA]r)+[0-9]{2,3}"},
    {"type": "string", "format": "date-time"}, {"type": "string", "format": "ipv6"}, {"type": "string", "format": "uuid"},
    {"type": "string", "minLength": 3, "maxLength": 3}, True, {"type": "object"},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
               {"properties": {"b": {"type": "string"}, "a": {"minimum": 5}}, "required": ["b"]}]},
    {"oneOf": [{"type": "integer", "maximum": 4}, {"type": "integer", "minimum": 6}, {"type": "string"}]},
    {"type": ["string", "null"], "enum": ["yes", "no", None, 3]},
    {"type": "integer", "multipleOf": 12, "exclusiveMinimum": -1000},
]


class SchemaMaker:
    """Random schemas of the keywords tamis keeps."""

    def __init__(self, rng):
        self.rng = rng

    def make(self, depth=3):
        kinds = ["integer", "number", "string", "boolean", "null", "enum", "const"]
        if depth > 0:
            kinds += ["object"] * 4 + ["array"] * 3 + ["anyOf", "allOf", "types"]
        return getattr(self, "make_" + self.rng.choice(kinds))(depth)

    def make_integer(self, depth):
        low = self.rng.randint(-10 ** self.rng.randint(0, 6), 10 ** self.rng.randint(0, 6))
        out = {"type": "integer"}
        if self.rng.random() < 0.6:
            out[self.rng.choice(["minimum", "exclusiveMinimum"])] = low
        if self.rng.random() < 0.6:
            out[self.rng.choice(["maximum", "exclusiveMaximum"])] = low + self.rng.randint(40, 10000)
        if self.rng.random() < 0.2:
            out["multipleOf"] = self.rng.randint(2, 17)
        return out

    def make_number(self, depth):
        low = round(self.rng.uniform(-1000, 1000), self.rng.randint(0, 3))
        out = {"type": "number"}
        if self.rng.random() < 0.6:
            out[self.rng.choice(["minimum", "exclusiveMinimum"])] = low
        if self.rng.random() < 0.6:
            out[self.rng.choice(["maximum", "exclusiveMaximum"])] = low + self.rng.randint(1, 500)
        return out

    def make_string(self, depth):
        kind = self.rng.randrange(4)
        if kind == 0:
            low = self.rng.randint(0, 6)
            return {"type": "string", "minLength": low, "maxLength": low + self.rng.randint(0, 20)}
        if kind == 1:
            return {"type": "string", "pattern": self.rng.choice(
                ["^[a-z]{2,8}$", "^[A-Z][a-z]*$", "[0-9]{3}-[0-9]{4}", "^(red|green|blue)$", "^#[0-9a-f]{6}$", "a.c$", "^[^x]+$",
                 "^é+|ü$", "^[\\u0020-\\u007e]{0,30}$"])}
        if kind == 2:
            return {"type": "string", "format": self.rng.choice(["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6"])}
        return {"type": "string"}

    def make_boolean(self, depth):
        return {"type": "boolean"}

    def make_null(self, depth):
        return {"type": "null"}

    def value(self):
        return self.rng.choice(["a", "b c", "é\n\"", "😀", 0, 17, -3, 2.5, True, None, [], [1, "x"], {"k": None}])

    def make_enum(self, depth):
        return {"enum": [self.value() for _ in range(self.rng.randint(1, 5))]}

    def make_const(self, depth):
        return {"const": self.value()}

    def make_types(self, depth):
        return {"type": self.rng.sample(["string", "integer", "null", "boolean", "number"], 2)}

    def make_array(self, depth):
        out = {"type": "array", "items": self.make(depth - 1)}
        if self.rng.random() < 0.3:
            out["prefixItems"] = [self.make(depth - 1) for _ in range(self.rng.randint(1, 3))]
        if self.rng.random() < 0.4:
            out["minItems"] = self.rng.randint(0, 3)
        if self.rng.random() < 0.4:
            out["maxItems"] = out.get("minItems", 0) + self.rng.randint(0, 5)
        return out

    def make_object(self, depth):
        names = self.rng.sample(["name", "id", "größe", "a b", "x", "items", "kind", "\"q\"", "namex", "na"], self.rng.randint(0, 6))
        out = {"type": "object", "properties": {name: self.make(depth - 1) for name in names}}
        out["required"] = [name for name in names if self.rng.random() < 0.5]
        kind = self.rng.random()
        if kind < 0.5:
            out["additionalProperties"] = False
        elif kind < 0.8:
            out["additionalProperties"] = self.make(0)
        if self.rng.random() < 0.1:
            out["maxProperties"] = len(names) + self.rng.randint(0, 2)
        return out

    def make_anyOf(self, depth):
        return {"anyOf": [self.make(depth - 1) for _ in range(self.rng.randint(1, 3))]}

    def make_allOf(self, depth):
        return {"allOf": [self.make_object(depth - 1), {"type": "object", "required": ["x"], "properties": {"x": self.make(0)}}]}


def resolve(root, schema):
    while isinstance(schema, dict) and "$ref" in schema:
        target = root
        for step in schema["$ref"][2:].split("/"):
            target = target[step] if step else target
        schema = target
    return schema


def schemas_at(validator_of, root, schema, value):
    """The schema and all that hold with it for this value."""
    schema = resolve(root, schema)
    if not isinstance(schema, dict):
        return []
    out = [schema]
    for part in schema.get("allOf", []):
        out += schemas_at(validator_of, root, part, value)
    for part in schema.get("anyOf", []) + schema.get("oneOf", []):
        if validator_of(part).is_valid(value):
            out += schemas_at(validator_of, root, part, value)
            break
    return out


def in_order(validator_of, root, schema, value):
    """The value with members in the order of the schema's properties."""
    parts = schemas_at(validator_of, root, schema, value)
    if isinstance(value, list):
        out = []
        for i, item in enumerate(value):
            for part in parts:
                prefix = part.get("prefixItems", [])
                sub = prefix[i] if i < len(prefix) else part.get("items", True)
                item = in_order(validator_of, root, sub, item)
            out.append(item)
        return out
    if not isinstance(value, dict):
        return value
    names = [name for part in parts for name in part.get("properties", {})] + [name for part in parts for name in part.get("required", [])]
    ordered = {name: value[name] for name in names if name in value}
    ordered.update((name, member) for name, member in value.items() if name not in ordered)
    for name in ordered:
        for part in parts:
            sub = part.get("properties", {}).get(name, part.get("additionalProperties", True))
            ordered[name] = in_order(validator_of, root, sub, ordered[name])
    return ordered


def instances_of(schema, n):
    import hypothesis
    import hypothesis_jsonschema
    from hypothesis_jsonschema._canonicalise import HypothesisRefResolutionError
    found = []

    @hypothesis.settings(max_examples=n, database=None, deadline=None, derandomize=True,
                         suppress_health_check=list(hypothesis.HealthCheck), phases=[hypothesis.Phase.generate])
    @hypothesis.given(hypothesis_jsonschema.from_schema(schema))
    def collect(value):
        found.append(value)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            collect()
        except HypothesisRefResolutionError:
            pass  # it follows no recursive references
    return found[:n]


def plain_numbers(value):
    """False where JSON text would use a form tamis leaves out: an exponent in a bounded number, a fraction in an integer."""
    if isinstance(value, float):
        return "e" not in repr(value) and value != int(value) if abs(value) < 1e15 else False
    if isinstance(value, list):
        return all(plain_numbers(item) for item in value)
    if isinstance(value, dict):
        return all(plain_numbers(item) for item in value.values())
    return True


class Driver:
    def __init__(self, program, vocab):
        self.process = subprocess.Popen([program, vocab], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main():
    import jsonschema
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--schemas", type=int, default=500)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--driver", default=str(ROOT / "build/release/grammar_driver"))
    parser.add_argument("vocab", nargs="+")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    maker = SchemaMaker(rng)
    schemas = HAND_WRITTEN[:args.schemas] + [maker.make() for _ in range(max(0, args.schemas - len(HAND_WRITTEN)))]
    drivers = [Driver(args.driver, vocab) for vocab in args.vocab]
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    n_texts = n_instances = n_unsatisfiable = n_skipped = n_failed = 0
    for index, schema in enumerate(schemas):
        def validator_of(part, root=schema):
            whole = {**part, "$defs": root["$defs"]} if isinstance(part, dict) and isinstance(root, dict) and "$defs" in root else part
            return jsonschema.Draft202012Validator(whole, format_checker=checker)
        validator = validator_of(schema)
        reply = drivers[0].ask({"schema": schema, "sample": args.samples, "seed": args.seed + index})
        if "error" in reply and "no finite text" in reply["error"]:
            n_unsatisfiable += 1
            continue
        if "error" in reply:
            n_failed += 1
            print(f"schema {json.dumps(schema)}: {reply['error']}")
            continue
        for text in reply["texts"]:
            n_texts += 1
            try:
                validator.validate(json.loads(text))
            except (ValueError, jsonschema.ValidationError) as error:
                n_failed += 1
                print(f"schema {json.dumps(schema)}: wrote {text!r}: {str(error).splitlines()[0]}")
        instances = []
        for value in instances_of(schema, args.instances) if args.instances else []:
            if not plain_numbers(value):
                n_skipped += 1
            elif validator.is_valid(value):
                instances.append(in_order(validator_of, schema, schema, value))
        texts = [json.dumps(value, ensure_ascii=i % 2 == 0, separators=(",", ":") if i % 3 == 0 else None)
                 for i, value in enumerate(instances)]
        for driver, vocab in zip(drivers, args.vocab):
            for text, accepted in zip(texts, driver.ask({"schema": schema, "accept": texts})["accepted"]):
                n_instances += 1
                if not accepted:
                    n_failed += 1
                    print(f"{pathlib.Path(vocab).name}: schema {json.dumps(schema)}: refused {text!r}")
    print(f"{len(schemas)} schemas ({n_unsatisfiable} that nothing satisfies): {n_texts} answers drawn, {n_instances} instances tried "
          f"({n_skipped} left out for their numbers' form), {n_failed} failures")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
