"""What comes in is read as strictly as a browser's answer, and what goes out is JSON that every reader takes."""

import uuid
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from ninja import Schema
from ninja.parser import Parser
from ninja.renderers import JSONRenderer
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, WithJsonSchema, model_validator

from annotation.payloads import read_json
from modelling.api.refusals import Unasked

LARGEST_NUMBER = 2**63 - 1
LARGEST_EXACT = 2**53  # a float beyond has lost its last digits
NO_NUL = r"^[^\x00]*$"
# Written out, because readers of the document do not agree on what \s is.
BLANK = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
NOT_BLANK = rf"^[^\x00]*[^{BLANK}][^\x00]*$"


class Sent(BaseModel):
    """A part of a body: a name that is not known is refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def one_kind_of_number(cls, sent: Any) -> Any:
        """JSON has one: 3.0 is as whole as 3. Texts and truths are none."""
        return {name: _whole(value) for name, value in sent.items()} if isinstance(sent, dict) else sent


def _whole(value: Any) -> Any:
    exact = isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_EXACT
    return int(value) if exact else value


class Told(Schema):
    """A part of an answer: what it has is all written down."""

    model_config = ConfigDict(extra="forbid")


def not_nil(value: uuid.UUID) -> uuid.UUID:
    if value.int == 0:
        raise ValueError(_("This id is empty."))
    return value


Whole = Annotated[int, Strict()]
YesOrNo = Annotated[bool, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Words = Annotated[str, Field(pattern=NO_NUL)]
Key = Annotated[str, Field(min_length=1, max_length=200, pattern=NOT_BLANK, description="The researcher's own id.")]
Code = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9_-]+$")]
Slug = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9_-]+$")]
Id = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]
Nonce = Annotated[
    uuid.UUID,
    AfterValidator(not_nil),
    Field(
        description="Made by you before the first try; the same again is the same write, not another one.",
        json_schema_extra={"not": {"const": str(uuid.UUID(int=0))}},
    ),
]


def one_of(choices: Any) -> WithJsonSchema:
    """Written out in the document: two lists of the same name, such as State, would be taken for one another."""
    return WithJsonSchema({"type": "string", "enum": list(choices.values)})


class StrictParser(Parser):
    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        return read_json(request)


class PlainRenderer(JSONRenderer):
    """No NaN, no infinity: an answer that held one would be a fault, not a number."""

    json_dumps_params = {"allow_nan": False}


View = Callable[..., Any]


def only_known_questions(view: View) -> View:
    """A question that the operation does not know is refused, and so is one that is asked twice."""
    known = _questions_of(view)

    @wraps(view)
    def asked(request: HttpRequest, **values: Any) -> Any:
        for name, given in request.GET.lists():
            if name not in known:
                raise Unasked(name[:100])
            if len(given) > 1:
                raise Unasked(name, _("“%(name)s” is asked twice.") % {"name": name})
        return view(request, **values)

    return asked


def _questions_of(view: View) -> set[str]:
    models = [model for model in view._ninja_operation.models if model.__ninja_param_source__ == "query"]  # type: ignore[attr-defined]
    return {name for model in models for name in getattr(model, "__ninja_flatten_map__", model.model_fields)}


def unchanged(request: HttpRequest, response: HttpResponseBase, *marks: object) -> HttpResponse | None:
    """304 where the reader has this state already; else the answer will name it."""
    etag = '"' + "-".join(str(mark) for mark in marks) + '"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    had = {mark.strip().removeprefix("W/") for mark in request.headers.get("If-None-Match", "").split(",")}
    if etag in had or "*" in had:
        return HttpResponse(status=304, headers=headers)
    for name, value in headers.items():
        response[name] = value
    return None
