"""The OpenAPI document as facts for a page: every operation with its fields, its answers and an example."""

import json
from dataclasses import dataclass
from typing import Any

from modelling.api.document import operations

Schema = dict[str, Any]
DEEPEST = 4  # how far the fields of a body are followed
LIMITS = {"minimum": "≥ {}", "maximum": "≤ {}", "maxLength": "at most {} characters", "maxItems": "at most {}"}


@dataclass(frozen=True)
class Field:
    """One parameter, or one member of a body or an answer; `name` says where it stands."""

    name: str
    kind: str
    required: bool
    words: str


@dataclass(frozen=True)
class Answer:
    """What comes back; the same members under several statuses are one answer."""

    words: str
    fields: list[Field]


@dataclass(frozen=True)
class Operation:
    name: str
    method: str
    path: str
    summary: str
    words: str
    parameters: list[Field]
    body: list[Field]
    answers: list[Answer]
    request: str
    answer: str


@dataclass(frozen=True)
class Reference:
    title: str
    words: str
    groups: list[tuple[str, list[Operation]]]
    problem: list[Field]


def reference(document: Schema, address: str) -> Reference:
    """The whole document, operations by what they are about."""
    reader = _Reader(document, address)
    groups: dict[str, list[Operation]] = {}
    for path, method, operation in operations(document):
        groups.setdefault(operation["tags"][0], []).append(reader.operation(path, method, operation))
    problem = reader.fields(document["components"]["schemas"]["Problem"])
    return Reference(document["info"]["title"], document["info"]["description"], list(groups.items()), problem)


class _Reader:
    def __init__(self, document: Schema, address: str) -> None:
        self.schemas, self.address = document["components"]["schemas"], address

    def operation(self, path: str, method: str, facts: Schema) -> Operation:
        sent = self._json(facts.get("requestBody", {}))
        good = next(told for status, told in facts["responses"].items() if status < 300)
        return Operation(
            facts["operationId"], method.upper(), path, facts["summary"], facts.get("description", ""),
            [self._parameter(each) for each in facts["parameters"]], self.fields(sent) if sent else [],
            self._answers(facts["responses"]), self._request(path, method, sent),
            _pretty(self.example(self._json(good))),
        )  # fmt: skip

    def _json(self, content: Schema) -> Schema:
        """The schema of a body or an answer that is JSON."""
        kinds = content.get("content", {})
        return kinds.get("application/json", {}).get("schema", {})

    def _answers(self, responses: Schema) -> list[Answer]:
        found: list[Answer] = []
        for status, told in sorted(responses.items()):
            schema, words = self._json(told), f"{status} {told['description']}"
            fields = self.fields(schema) if schema else []
            if found and fields and found[-1].fields == fields:
                found[-1] = Answer(f"{found[-1].words}, {words}", fields)
            else:
                found.append(Answer(words, fields))
        return found

    def _parameter(self, facts: Schema) -> Field:
        kind = f"{facts['in']}, {self.kind(facts['schema'])}"
        words = self._words(facts["schema"]) or facts.get("description", "")
        return Field(facts["name"], kind, facts["required"], words)

    def resolved(self, schema: Schema) -> Schema:
        """The schema itself where it is only named; what stands beside the name goes with it."""
        while "$ref" in schema:
            beside = {name: value for name, value in schema.items() if name != "$ref"}
            schema = {**self.schemas[schema["$ref"].rsplit("/", 1)[1]], **beside}
        return schema

    def _alternatives(self, schema: Schema) -> list[Schema]:
        schema = self.resolved(schema)
        return [self.resolved(each) for each in schema.get("anyOf", [schema])]

    def kind(self, schema: Schema) -> str:
        return " or ".join(self._plain_kind(each) for each in self._alternatives(schema))

    def _plain_kind(self, schema: Schema) -> str:
        if "const" in schema:
            return json.dumps(schema["const"])
        if "enum" in schema:
            return " | ".join(str(value) for value in schema["enum"])
        if schema.get("type") == "array":
            return f"list of {self.kind(schema['items'])}"
        kind = schema.get("type", "anything")
        said = " or ".join(kind) if isinstance(kind, list) else kind
        return f"{said} ({schema['format']})" if "format" in schema else said

    def _words(self, schema: Schema) -> str:
        """What it means, its limits, and what it is where it is left out."""
        parts = [schema.get("description", "").replace("`", "").rstrip(".")]
        found = [each for each in self._alternatives(schema) if each.get("type") != "null"]
        limits = [words.format(f"{each[name]:,}") for each in found for name, words in LIMITS.items() if name in each]
        parts.append(", ".join(limits))
        if schema.get("default") not in (None, [], {}):
            parts.append(f"default {json.dumps(schema['default'], ensure_ascii=False)}")
        return "; ".join(part for part in parts if part)

    def fields(self, schema: Schema, prefix: str = "", depth: int = 0) -> list[Field]:
        """Every member, the members of members under their own names."""
        found: list[Field] = []
        for each in self._alternatives(schema):
            needed = each.get("required", [])
            for name, member in each.get("properties", {}).items():
                found.append(Field(prefix + name, self.kind(member), name in needed, self._words(member)))
                if depth < DEEPEST:
                    found += self._inner(member, prefix + name, depth)
        return found

    def _inner(self, member: Schema, name: str, depth: int) -> list[Field]:
        found: list[Field] = []
        for each in self._alternatives(member):
            inner, mark = (each["items"], "[].") if each.get("type") == "array" else (each, ".")
            found += self.fields(inner, name + mark, depth + 1)
        return found

    def example(self, schema: Schema) -> Any:
        """Something that could stand there: the examples that are given, what is required, the usual values."""
        if given := schema.get("examples"):
            return given[0]
        found = self._alternatives(schema)[0]
        for name in ("example", "const", "default"):
            if name in found:
                return found[name]
        if given := found.get("examples", found.get("enum")):
            return given[0]
        if found.get("type") == "array":
            return [self.example(found["items"])]
        if found.get("type") == "object":
            return self._example_object(found)
        return _example_scalar(found)

    def _example_object(self, schema: Schema) -> dict[str, Any]:
        wanted = schema.get("required", [])
        members = schema.get("properties", {}).items()
        return {name: self.example(member) for name, member in members if name in wanted or "examples" in member}

    def _request(self, path: str, method: str, sent: Schema) -> str:
        lines = [f"curl -X {method.upper()} {self.address}{path.replace('{slug}', 'pets')}"]
        lines.append('-H "Authorization: Bearer $CONCORD_TOKEN"')
        if sent:
            lines.append('-H "Content-Type: application/json"')
            lines.append("-d '" + json.dumps(self.example(sent), ensure_ascii=False) + "'")
        return " \\\n  ".join(lines)


SCALARS = {"integer": 1, "number": 0.5, "boolean": True, "null": None}
FORMATS = {"uuid": "0b8b56c2-3d0c-4a2e-9a5b-3a1f1d1f8c11", "date-time": "2026-03-01T12:00:00Z"}


def _example_scalar(schema: Schema) -> Any:
    if schema.get("type") == "string":
        return FORMATS.get(schema.get("format", ""), "…")
    return SCALARS.get(schema.get("type", ""))


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
