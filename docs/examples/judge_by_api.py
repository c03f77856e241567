"""A study by script: create it, send judgements, read the ranking. Needs httpx and a token with write permission.

CONCORD=http://127.0.0.1:8000 CONCORD_TOKEN=concord_... python judge_by_api.py
"""

import os
import time
import uuid

import httpx

TEXTS = {"purr": "Cats purr when they are content.", "clean": "Cats keep themselves clean.", "cheap": "Cats are cheap."}
api = httpx.Client(
    base_url=os.environ.get("CONCORD", "http://127.0.0.1:8000") + "/api/v1",
    headers={"Authorization": f"Bearer {os.environ['CONCORD_TOKEN']}"},
    event_hooks={"response": [lambda response: response.read() and response.raise_for_status()]},
)

project = api.post("/projects", json={"title": "Cats by script", "update_batch": 1}).json()
study = f"/projects/{project['slug']}"
items = [{"key": key, "text": text, "group": "cats"} for key, text in TEXTS.items()]
api.post(f"{study}/items", json={"items": items})
api.patch(study, json={"state": "open"})

for bot in ("bot-1", "bot-2"):
    worker = api.post(f"{study}/workers", json={"consent": True, "external_id": bot}).json()["code"]
    task = api.post(f"{study}/workers/{worker}/pairs").json()
    while task["pairs"]:
        pair = task["pairs"][0]
        choice = "left" if len(pair["left"]["text"]) > len(pair["right"]["text"]) else "right"
        answer = {"uuid": str(uuid.uuid4()), "worker": worker, "assignment": pair["assignment"], "choice": choice}
        task = api.post(f"{study}/judgements", json=answer).json()["next"]

last = api.get(f"{study}/judgements", params={"ordering": "-sequence", "limit": 1}).json()["rows"][0]["sequence"]
while not any(version["last_sequence"] >= last for version in api.get(f"{study}/snapshots").json()["rows"]):
    time.sleep(1)  # the model is updated in the background
for row in api.get(f"{study}/ranking").json()["rows"]:
    print(f"{row['rank']}. {row['key']:8} {row['mean']:+.2f} ± {1.96 * row['sd']:.2f}")
