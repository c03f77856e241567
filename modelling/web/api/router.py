"""The API object with all its routers."""

from modelling.web.api.endpoints import (
    exports,
    items,
    judgements,
    predictions,
    projects,
    suggestions,
    versions,
    workers,
)
from modelling.web.api.errors import add_exception_handlers
from modelling.web.api.openapi import ConcordAPI
from modelling.web.api.schemas import StrictJSONParser, StrictJSONRenderer, reject_unknown_parameters

DESCRIPTION = (
    "Everything that the pages can do, for scripts, bots and other front ends. Every request needs a token: "
    "`Authorization: Bearer concord_…`. A token never has more rights than the user who created it."
)

api = ConcordAPI(
    title="Concord",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    docs_url=None,
    openapi_url=None,
    parser=StrictJSONParser(),
    renderer=StrictJSONRenderer(),
)
add_exception_handlers(api)
api.add_decorator(reject_unknown_parameters)
for module in (projects, items, workers, judgements, versions, predictions, suggestions, exports):
    api.add_router("", module.router)
