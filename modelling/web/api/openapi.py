"""The OpenAPI document, complete with every error response and conditional header."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from ninja import NinjaAPI

METHODS = ("get", "post", "put", "patch", "delete")
# Error statuses of every operation, of those within a project, and of those with a body.
ALWAYS = (400, 401, 403, 405, 429, 503)
WITH_PROJECT = (404,)
WITH_BODY = (409, 413, 415, 422)
CONFLICTS = {"lease_pairs", "fetch_export", "fetch_file"}  # operations without a body that can respond 409
CONDITIONAL = {"list_items", "list_judgements", "read_snapshot", "read_ranking", "fetch_export"}

PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "An error (RFC 9457): what happened and what to do.",
    "required": ["type", "title", "status", "detail", "field", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string", "description": "What happened."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is safe and what to do."},
        "field": {"type": ["string", "null"], "description": "The part of the request the error is about."},
        "code": {"type": ["string", "null"], "description": "Machine-readable error code."},
        "request_id": {"type": "string", "description": "Identifies the request in the server log."},
        "recorded": {
            "type": "object",
            "description": "The answer that was stored before and is unchanged.",
            "required": ["saved", "choice", "skip_reason"],
            "properties": {
                "saved": {"type": "string"},
                "choice": {"type": "string"},
                "skip_reason": {"type": "string"},
            },
            "additionalProperties": False,
        },
        "problems": {"type": "array", "items": {"type": "string"}, "description": "All errors, item by item."},
    },
    "additionalProperties": False,
    "example": {
        "type": "about:blank",
        "title": "“limit” is invalid.",
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
    "description": "ETag of an earlier response; 304 if nothing has changed.",
}
ETAG = {"ETag": {"required": True, "schema": {"type": "string"}, "description": "Identifies this state."}}


class ConcordAPI(NinjaAPI):
    """Adds error responses and headers to the document that ninja generates for successful responses."""

    def get_openapi_operation_id(self, operation: Any) -> str:
        return str(operation.view_func.__name__)

    def get_openapi_schema(self, **where: Any) -> Any:
        document = super().get_openapi_schema(**where)
        document["components"]["schemas"]["Problem"] = PROBLEM
        for path, _method, operation in operations(document):
            _complete(path, operation)
        return document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield path, method and operation, in the order of their definition."""
    for path, methods in document["paths"].items():
        yield from ((path, method, methods[method]) for method in METHODS if method in methods)


def _complete(path: str, operation: dict[str, Any]) -> None:
    statuses = [*ALWAYS]
    statuses += WITH_PROJECT if "{slug}" in path else ()
    statuses += WITH_BODY if "requestBody" in operation else ()
    statuses += (409,) if operation["operationId"] in CONFLICTS else ()
    for status in sorted(statuses):
        operation["responses"][status] = _problem_response(status)
    if operation["operationId"] in CONDITIONAL:
        operation["parameters"].append(IF_NONE_MATCH)
        operation["responses"][200]["headers"] = ETAG
        operation["responses"][304] = {"description": "Not modified.", "headers": ETAG}


def _problem_response(status: int) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": HTTPStatus(status).phrase, "content": content}
