"""Mini-batches of users: as good as everybody at once, and nobody outside a batch decays."""

import numpy as np
import pytest

from modelling.crowdgppl.inference import Rules
from modelling.crowdgppl.svi import Steps, batch_step, begin_natural

from .crowds import fitted, make_crowd, scores
from .test_limits import started


@pytest.mark.parametrize("seed", range(2))
def test_ten_batches_are_about_as_good_as_everybody_at_once(seed):
    crowd = make_crowd(seed=20 + seed, n_users=300, n_items=30, per_user=12, held_per_user=12)
    full, batches = (scores(fitted(crowd.labels, batch_size=size), crowd.held) for size in (None, 30))
    assert batches[0] > full[0] - 0.01
    assert batches[1] < full[1] + 0.015


def test_users_outside_a_batch_do_not_decay(crowd):
    post = started(crowd)
    post.refresh_users()
    begin_natural(post)
    before = post.users.W.copy()
    batch_step(post, np.arange(10), 0.2, Rules(exchange=False))
    personal = post.items.mean[:, 1:] @ post.users.W[20:].T
    assert np.abs(personal).max() > 0
    norms = np.linalg.norm(post.users.W[20:], axis=0) / np.linalg.norm(before[20:], axis=0)
    turned = post.users.W[20:] / norms  # the exchange of scales multiplies a whole component
    assert turned == pytest.approx(before[20:], rel=1e-9)


def test_steps_shrink_from_one():
    steps = Steps(batch_size=10, forgetting_rate=0.7, delay=1.0)
    assert steps.rho(0) == 1.0
    assert steps.rho(9) == pytest.approx(10**-0.7)


def test_an_epoch_visits_every_user_once(crowd):
    batches = list(crowd.labels.user_batches(7, np.random.default_rng(0)))
    assert sorted(np.concatenate(batches)) == list(range(30))
    assert max(len(batch) for batch in batches) <= 7
