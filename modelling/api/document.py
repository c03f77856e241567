"""The OpenAPI document, with every refusal and header written down: what it says is all that ever happens."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from ninja import NinjaAPI

METHODS = ("get", "post", "put", "patch", "delete")
# Where an operation can answer so. 400, 401, 405, 429 and 503 can happen everywhere, 404 wherever a project is named.
ALWAYS = (400, 401, 403, 405, 429, 503)
WITH_PROJECT = (404,)
WITH_BODY = (409, 413, 415, 422)
CONFLICTS = {"lend_pairs", "fetch_export", "fetch_file"}  # without a body, and still not at any time
CONDITIONAL = {"list_items", "list_judgements", "read_snapshot", "read_ranking", "fetch_export"}

PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "A refusal (RFC 9457): what happened, what is safe, what to do.",
    "required": ["type", "title", "status", "detail", "field", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string", "description": "What happened."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is safe, and what to do."},
        "field": {"type": ["string", "null"], "description": "The part of the request that is meant."},
        "code": {"type": ["string", "null"], "description": "For programs: which refusal it is."},
        "request_id": {"type": "string", "description": "Finds the request in the server's log."},
        "recorded": {
            "type": "object",
            "description": "The answer that is stored already, and stays.",
            "required": ["saved", "choice", "skip_reason"],
            "properties": {
                "saved": {"type": "string"},
                "choice": {"type": "string"},
                "skip_reason": {"type": "string"},
            },
            "additionalProperties": False,
        },
        "problems": {"type": "array", "items": {"type": "string"}, "description": "What is wrong, item by item."},
    },
    "additionalProperties": False,
    "example": {
        "type": "about:blank",
        "title": "“limit” cannot be taken.",
        "status": 400,
        "detail": "Input should be less than or equal to 1000",
        "field": "limit",
        "code": None,
        "request_id": "6f0c2f9b1a7e",
    },
}
IF_NONE_MATCH = {
    "in": "header",
    "name": "If-None-Match",
    "required": False,
    "schema": {"type": "string"},
    "description": "The ETag of an earlier answer; 304 where nothing has changed.",
}
ETAG = {"ETag": {"required": True, "schema": {"type": "string"}, "description": "Names this state."}}


class CompleteAPI(NinjaAPI):
    """ninja's own document knows the answers of success; the rest is added here."""

    def get_openapi_operation_id(self, operation: Any) -> str:
        return str(operation.view_func.__name__)

    def get_openapi_schema(self, **where: Any) -> Any:
        document = super().get_openapi_schema(**where)
        document["components"]["schemas"]["Problem"] = PROBLEM
        for path, _method, operation in operations(document):
            _complete(path, operation)
        return document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every path, method and operation, in the order they were made."""
    for path, methods in document["paths"].items():
        yield from ((path, method, methods[method]) for method in METHODS if method in methods)


def _complete(path: str, operation: dict[str, Any]) -> None:
    refusals = [*ALWAYS]
    refusals += WITH_PROJECT if "{slug}" in path else ()
    refusals += WITH_BODY if "requestBody" in operation else ()
    refusals += (409,) if operation["operationId"] in CONFLICTS else ()
    for status in sorted(refusals):
        operation["responses"][status] = _refusal(status)
    if operation["operationId"] in CONDITIONAL:
        operation["parameters"].append(IF_NONE_MATCH)
        operation["responses"][200]["headers"] = ETAG
        operation["responses"][304] = {"description": "Nothing has changed.", "headers": ETAG}


def _refusal(status: int) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": HTTPStatus(status).phrase, "content": content}
