"""Predictions: preferences in pairs, personal scores, and the rank of a new text."""

from typing import Annotated, Any

import numpy as np
from django.utils.translation import gettext as _
from ninja import Router
from numpy.typing import NDArray
from pydantic import Field

from modelling.dashboards.common.ranked_entries import ranked_entries
from modelling.dashboards.new_text import MAX_TEXT_LENGTH, new_text_page
from modelling.models import ModelSnapshot
from modelling.training.snapshots import FittedModel, load_fitted_model
from modelling.training.versions import shown_snapshot
from modelling.training.votes import get_votes
from modelling.web.api.auth import ApiRequest, NotFound, get_project, get_worker, read_access
from modelling.web.api.endpoints.versions import LARGEST_VERSION, get_version
from modelling.web.api.errors import Conflict
from modelling.web.api.schemas import (
    NOT_BLANK,
    Code,
    Key,
    PlainText,
    RequestSchema,
    ResponseSchema,
    Slug,
    StrictInt,
    old_name,
)

router = Router(tags=["predictions"])
MAX_PAIRS, MAX_UTILITIES, MAX_TEXTS = 1000, 1000, 10


class PairQuery(RequestSchema):
    """A pair of items, for one worker or, without one, the crowd."""

    a: Annotated[Key, Field(examples=["cat-1"])]
    b: Annotated[Key, Field(examples=["cat-2"])]
    worker: Annotated[Code | None, Field(examples=["k3m9x2p7qa"])] = None


class UtilityQuery(RequestSchema):
    """A worker and an item whose personal score is wanted."""

    worker: Annotated[Code, Field(examples=["k3m9x2p7qa"])]
    item: Annotated[Key, Field(examples=["cat-1"])]


class TextQuery(RequestSchema):
    """A text that was not judged. It is not stored."""

    text: Annotated[
        str, Field(min_length=1, max_length=MAX_TEXT_LENGTH, pattern=NOT_BLANK, examples=["Cats are quiet."])
    ]
    group: Annotated[
        PlainText, Field(max_length=200, description="Rank among the items of this group; empty: all.")
    ] = ""


class PredictionRequest(RequestSchema):
    """What to predict; every list is optional."""

    version: Annotated[
        Annotated[StrictInt, Field(ge=1, le=LARGEST_VERSION)] | None,
        Field(description="Default: the version that pages show."),
    ] = None
    pairs: Annotated[list[PairQuery], Field(max_length=MAX_PAIRS)] = []
    utilities: Annotated[list[UtilityQuery], Field(max_length=MAX_UTILITIES)] = []
    likings: Annotated[list[UtilityQuery], Field(max_length=MAX_UTILITIES), old_name("utilities")] = []
    texts: Annotated[list[TextQuery], Field(max_length=MAX_TEXTS)] = []


class PairResponse(ResponseSchema):
    """`personal` is false if the model has no judgements by the worker and predicts for a typical worker."""

    a: str
    b: str
    worker: str | None
    probability: float = Field(description="Probability that the worker, or a typical worker, prefers `a` to `b`.")
    probability_random_worker: float = Field(description="Probability that a random worker prefers `a` to `b`.")
    personal: bool
    comparable: bool = Field(
        description="Whether judgements link the two items. If not, the prediction is extrapolated from their texts."
    )


class UtilityResponse(ResponseSchema):
    worker: str
    item: str
    mean: float
    sd: float = Field(description="Standard deviation of the difference from the mean of the ranked items.")
    personal: bool
    part: int | None = Field(
        description="Part of the comparison graph. Scores in different parts have no common scale in the judgements."
    )


class TextResponse(ResponseSchema):
    """The predicted score and rank of the text, with a 95% rank interval."""

    mean: float
    sd: float
    rank: int
    rank_low: int
    rank_high: int
    n_items: int
    comparable: bool = Field(
        description="Whether judgements link the items it is ranked among. If not, the rank is extrapolated from texts."
    )


class PredictionsResponse(ResponseSchema):
    """Predictions of one version, in the order of the request."""

    version: int
    as_of_seq: int
    pairs: list[PairResponse]
    utilities: list[UtilityResponse]
    likings: list[UtilityResponse] = old_name("utilities")
    texts: list[TextResponse]


@router.post("/projects/{slug}/predict", auth=read_access, response=PredictionsResponse, summary="Predict")
def predict(request: ApiRequest, slug: Slug, wanted: PredictionRequest) -> Any:
    """Predicts for pairs, workers and new texts. Stores nothing, so a read-only token is enough."""
    project = get_project(request, slug, archived=True)
    if wanted.version is None and shown_snapshot(project) is None:
        raise Conflict(_("The model has not learned from any judgement of this project yet."))
    snapshot = get_version(project, wanted.version)
    needs_model = wanted.pairs or wanted.utilities or wanted.likings
    index = ModelIndex(snapshot, load_fitted_model(snapshot)) if needs_model else None
    return {
        "version": snapshot.number,
        "as_of_seq": snapshot.last_sequence,
        "pairs": pair_responses(index, wanted.pairs) if index else [],
        "utilities": utility_responses(index, wanted.utilities, "utilities") if index else [],
        "likings": utility_responses(index, wanted.likings, "likings") if index else [],
        "texts": [text_response(snapshot, text, f"texts.{at}.group") for at, text in enumerate(wanted.texts)],
    }


class ModelIndex:
    """Positions of items and workers in the model, by key and code; NotFound for unknown ones."""

    def __init__(self, snapshot: ModelSnapshot, fitted: FittedModel) -> None:
        self.project, self.fitted, self.model = snapshot.project, fitted, fitted.model
        place = fitted.item_index
        scores = list(snapshot.scores.values_list("item__key", "item", "mean", "sd"))
        self.items = {key: place[pk] for key, pk, _mean, _sd in scores}
        self.crowd = {place[pk]: (mean, sd) for _key, pk, mean, sd in scores}
        self.workers: dict[str, int | None] = {}
        votes = get_votes(snapshot)
        self.part = {place[pk]: votes.of(pk).part for _key, pk, _mean, _sd in scores}

    def item(self, key: str, field: str) -> int:
        if key not in self.items:
            raise NotFound(_("This version has no item with this key."), field)
        return self.items[key]

    def worker(self, code: str | None, field: str) -> int | None:
        if code is None:
            return None
        if code not in self.workers:
            found = get_worker(self.project, code, field)
            self.workers[code] = self.fitted.worker_index.get(found.pk)
        return self.workers[code]


def pair_responses(index: ModelIndex, wanted: list[PairQuery]) -> list[dict[str, Any]]:
    """Predict personally if the model knows the worker, else for a typical worker."""
    if not wanted:
        return []
    a = np.array([index.item(pair.a, f"pairs.{at}.a") for at, pair in enumerate(wanted)])
    b = np.array([index.item(pair.b, f"pairs.{at}.b") for at, pair in enumerate(wanted)])
    users = [index.worker(pair.worker, f"pairs.{at}.worker") for at, pair in enumerate(wanted)]
    own = np.array([user is not None for user in users])
    p = np.empty(len(wanted))
    if own.any():
        p[own] = index.model.predict_proba(np.array([user for user in users if user is not None]), a[own], b[own])
    if not own.all():
        p[~own] = index.model.predict_consensus_proba(a[~own], b[~own], kind="typical")
    crowd = index.model.predict_consensus_proba(a, b, kind="mean")
    parts = [(index.part[first], index.part[second]) for first, second in zip(a.tolist(), b.tolist(), strict=True)]
    linked = [first is not None and first == second for first, second in parts]
    return [
        {
            "a": pair.a, "b": pair.b, "worker": pair.worker, "probability": probability,
            "probability_random_worker": random, "personal": personal, "comparable": comparable,
        }
        for pair, probability, random, personal, comparable in zip(
            wanted, p.tolist(), crowd.tolist(), own.tolist(), linked, strict=True
        )
    ]  # fmt: skip


def utility_responses(index: ModelIndex, wanted: list[UtilityQuery], name: str) -> list[dict[str, Any]]:
    """Predict personal scores; the consensus score if the model does not know the worker."""
    users = [index.worker(each.worker, f"{name}.{at}.worker") for at, each in enumerate(wanted)]
    items = np.array([index.item(each.item, f"{name}.{at}.item") for at, each in enumerate(wanted)], dtype=int)
    mean, sd = np.empty(len(wanted)), np.empty(len(wanted))
    for user in set(users):
        rows_of_user = np.array([other == user for other in users])
        mean[rows_of_user], sd[rows_of_user] = _scores(index, user, items[rows_of_user])
    parts = [index.part[item] for item in items.tolist()]
    rows = zip(wanted, users, mean, sd, parts, strict=True)
    return [
        {**each.model_dump(), "mean": float(m), "sd": float(s), "personal": user is not None, "part": part}
        for each, user, m, s, part in rows
    ]


def _scores(index: ModelIndex, user: int | None, items: NDArray[np.int64]) -> tuple[Any, Any]:
    """Return means and standard deviations of one worker's scores, or of the consensus."""
    if user is None:
        crowd = np.array([index.crowd[int(item)] for item in items])
        return crowd[:, 0], crowd[:, 1]
    ranked = index.fitted.ranked
    means, sds = index.model.predict_utilities(users=np.array([user]), items=items, return_std=True, among=ranked)
    return means[:, 0], sds[:, 0]


def text_response(snapshot: ModelSnapshot, text: TextQuery, field: str) -> dict[str, Any]:
    page = new_text_page(snapshot, text.text, text.group)
    if page is None:
        raise NotFound(_("This version has no items in this group."), field)
    entries = ranked_entries(snapshot, group=text.group).values()
    expected = {name: getattr(page.expected, name) for name in TextResponse.model_fields if name != "comparable"}
    return {**expected, "comparable": len({each.list_number for each in entries}) == 1}
