"""What the model expects: who wins a pair, how much a worker likes an item, and where a new text would stand."""

from typing import Annotated, Any

import numpy as np
from django.utils.translation import gettext as _
from ninja import Router
from numpy.typing import NDArray
from pydantic import Field

from modelling.api.door import ApiRequest, Missing, project_for, reads, worker_for
from modelling.api.refusals import Conflict
from modelling.api.strictness import NOT_BLANK, Code, Key, Sent, Slug, Told, Whole, Words
from modelling.api.versions import LARGEST_VERSION, version_of
from modelling.dashboards.new_argument import LONGEST_TEXT, new_argument_page
from modelling.models import ModelSnapshot
from modelling.snapshots import Fitted, load_fitted
from modelling.versions import shown_snapshot

router = Router(tags=["predictions"])
MOST_PAIRS, MOST_LIKINGS, MOST_TEXTS = 1000, 1000, 10


class AskedPair(Sent):
    """Which of two items is preferred, by one worker or, without one, by a typical worker."""

    a: Annotated[Key, Field(examples=["cat-1"])]
    b: Annotated[Key, Field(examples=["cat-2"])]
    worker: Annotated[Code | None, Field(examples=["k3m9x2p7qa"])] = None


class AskedLiking(Sent):
    """How much a worker likes an item."""

    worker: Annotated[Code, Field(examples=["k3m9x2p7qa"])]
    item: Annotated[Key, Field(examples=["cat-1"])]


class AskedText(Sent):
    """A text that nobody has judged. It is only read; nothing of it is kept."""

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT, pattern=NOT_BLANK, examples=["Cats are quiet."])]
    group: Annotated[Words, Field(max_length=200, description="Among the items of this group; empty: all.")] = ""


class Questions(Sent):
    """What is to be predicted; every list may be left out."""

    version: Annotated[
        Annotated[Whole, Field(ge=1, le=LARGEST_VERSION)] | None, Field(description="Without it, the shown one.")
    ] = None
    pairs: Annotated[list[AskedPair], Field(max_length=MOST_PAIRS)] = []
    likings: Annotated[list[AskedLiking], Field(max_length=MOST_LIKINGS)] = []
    texts: Annotated[list[AskedText], Field(max_length=MOST_TEXTS)] = []


class PairTold(Told):
    """`personal` is false where the model knows nothing of the worker yet and a typical worker is meant."""

    a: str
    b: str
    worker: str | None
    probability: float = Field(description="That `a` is preferred to `b`.")
    personal: bool


class LikingTold(Told):
    worker: str
    item: str
    mean: float
    sd: float = Field(description="Of the distance from the mean of the ranked items.")
    personal: bool


class TextTold(Told):
    """The expected score of the text and its place among the items, with a 90 % interval of ranks."""

    mean: float
    sd: float
    rank: int
    rank_low: int
    rank_high: int
    n_items: int


class Predictions(Told):
    """In the order of the questions, all of one version."""

    version: int
    as_of_seq: int
    pairs: list[PairTold]
    likings: list[LikingTold]
    texts: list[TextTold]


@router.post("/projects/{slug}/predict", auth=reads, response=Predictions, summary="Predict")
def predict(request: ApiRequest, slug: Slug, questions: Questions) -> Any:
    """Answers for pairs, workers and new texts, without storing anything: a token that may only read can ask."""
    project = project_for(request, slug, archived=True)
    if questions.version is None and shown_snapshot(project) is None:
        raise Conflict(_("The model has not learned from a judgement of this project yet."))
    snapshot = version_of(project, questions.version)
    known = _Known(snapshot, load_fitted(snapshot)) if questions.pairs or questions.likings else None
    return {
        "version": snapshot.number,
        "as_of_seq": snapshot.last_sequence,
        "pairs": pairs_told(known, questions.pairs) if known else [],
        "likings": likings_told(known, questions.likings) if known else [],
        "texts": [text_told(snapshot, asked, f"texts.{at}.group") for at, asked in enumerate(questions.texts)],
    }


class _Known:
    """Where items and workers stand in a version, by key and code; 404 for what it does not know."""

    def __init__(self, snapshot: ModelSnapshot, fitted: Fitted) -> None:
        self.project, self.fitted, self.model = snapshot.project, fitted, fitted.model
        place = fitted.item_at
        scores = list(snapshot.scores.values_list("item__key", "item", "mean", "sd"))
        self.items = {key: place[pk] for key, pk, _mean, _sd in scores}
        self.crowd = {place[pk]: (mean, sd) for _key, pk, mean, sd in scores}
        self.workers: dict[str, int | None] = {}

    def item(self, key: str, field: str) -> int:
        if key not in self.items:
            raise Missing(_("This version knows no item with this key."), field)
        return self.items[key]

    def worker(self, code: str | None, field: str) -> int | None:
        if code is None:
            return None
        if code not in self.workers:
            found = worker_for(self.project, code, field)
            self.workers[code] = self.fitted.position_of_worker(found.pk)
        return self.workers[code]


def pairs_told(known: _Known, asked: list[AskedPair]) -> list[dict[str, Any]]:
    """Personal probabilities where the worker is known to the model, those of a typical worker elsewhere."""
    if not asked:
        return []
    a = np.array([known.item(pair.a, f"pairs.{at}.a") for at, pair in enumerate(asked)])
    b = np.array([known.item(pair.b, f"pairs.{at}.b") for at, pair in enumerate(asked)])
    users = [known.worker(pair.worker, f"pairs.{at}.worker") for at, pair in enumerate(asked)]
    own = np.array([user is not None for user in users])
    p = np.empty(len(asked))
    if own.any():
        p[own] = known.model.predict_proba(np.array([user for user in users if user is not None]), a[own], b[own])
    if not own.all():
        p[~own] = known.model.predict_consensus_proba(a[~own], b[~own])
    rows = zip(asked, p, own, strict=True)
    return [
        {"a": pair.a, "b": pair.b, "worker": pair.worker, "probability": float(prob), "personal": bool(personal)}
        for pair, prob, personal in rows
    ]


def likings_told(known: _Known, asked: list[AskedLiking]) -> list[dict[str, Any]]:
    """Each worker's own score of each item; that of the crowd where the model knows nothing of the worker yet."""
    users = [known.worker(liking.worker, f"likings.{at}.worker") for at, liking in enumerate(asked)]
    items = np.array([known.item(liking.item, f"likings.{at}.item") for at, liking in enumerate(asked)], dtype=int)
    mean, sd = np.empty(len(asked)), np.empty(len(asked))
    for user in set(users):
        theirs = np.array([other == user for other in users])
        mean[theirs], sd[theirs] = _scores(known, user, items[theirs])
    rows = zip(asked, users, mean, sd, strict=True)
    return [
        {**liking.model_dump(), "mean": float(m), "sd": float(s), "personal": user is not None}
        for liking, user, m, s in rows
    ]


def _scores(known: _Known, user: int | None, items: NDArray[np.int64]) -> tuple[Any, Any]:
    """Means and standard deviations of one worker's scores, or of the crowd's: as pages show them."""
    if user is None:
        crowd = np.array([known.crowd[int(item)] for item in items])
        return crowd[:, 0], crowd[:, 1]
    ranked = known.fitted.ranked
    means, sds = known.model.predict_utilities(users=np.array([user]), items=items, return_std=True, among=ranked)
    return means[:, 0], sds[:, 0]


def text_told(snapshot: ModelSnapshot, asked: AskedText, field: str) -> dict[str, Any]:
    page = new_argument_page(snapshot, asked.text, asked.group)
    if page is None:
        raise Missing(_("This version knows no items of this group."), field)
    return {name: getattr(page.expected, name) for name in TextTold.model_fields}
