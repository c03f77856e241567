"""The API as a whole: its rooms behind one door."""

from modelling.api import exports, items, judgements, predictions, projects, suggestions, versions, workers
from modelling.api.document import CompleteAPI
from modelling.api.refusals import say_it_in_problems
from modelling.api.strictness import PlainRenderer, StrictParser, only_known_questions

DESCRIPTION = (
    "What Concord's pages do, for scripts, bots and other front ends. Every request carries a token: "
    "`Authorization: Bearer concord_…`. A token never has more rights than the person who made it."
)

api = CompleteAPI(
    title="Concord",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    docs_url=None,
    openapi_url=None,
    parser=StrictParser(),
    renderer=PlainRenderer(),
)
say_it_in_problems(api)
api.add_decorator(only_known_questions)
for room in (projects, items, workers, judgements, versions, predictions, suggestions, exports):
    api.add_router("", room.router)
