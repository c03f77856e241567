// A worker's page. An answer is written down on this device before it is sent, under an id made here, and is sent again
// until the server has acknowledged it: the same id twice is one judgement.
(() => {
  "use strict";
  const page = document.getElementById("judge");
  if (!page) return;

  const FIRST_PAUSE = 1000;
  const LONGEST_PAUSE = 20000;
  const KEYS = { ArrowLeft: "left", 1: "left", ArrowRight: "right", 2: "right", ArrowDown: "tie", 0: "tie", s: "skip" };
  const byId = (id) => document.getElementById(id);
  const buttons = [...page.querySelectorAll("[data-choice]")];
  let task = JSON.parse(byId("task").textContent);
  let shownAt = performance.now();

  const uuid = () => {
    if (crypto.randomUUID) return crypto.randomUUID();
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
  };

  const kept = {
    read: () => JSON.parse(localStorage.getItem(page.dataset.store) || "null"),
    write: (answer) => localStorage.setItem(page.dataset.store, JSON.stringify(answer)),
    clear: () => localStorage.removeItem(page.dataset.store),
  };

  const show = (next) => {
    task = next;
    if (!task.pairs.length) {
      window.location.reload();
      return;
    }
    byId("left").textContent = task.pairs[0].left.text;
    byId("right").textContent = task.pairs[0].right.text;
    byId("progress").value = task.done;
    byId("count").textContent = `${task.done} / ${task.total}`;
    shownAt = performance.now();
    lock(false);
    window.scrollTo(0, 0);
  };

  const lock = (locked) => buttons.forEach((button) => { button.disabled = locked; });

  const say = (words) => {
    byId("trouble").textContent = words;
    byId("trouble").hidden = !words;
  };

  const choose = (choice) => {
    if (kept.read() || !buttons.some((button) => button.dataset.choice === choice && !button.disabled)) return;
    const response = Math.round(performance.now() - shownAt);
    kept.write({ uuid: uuid(), assignment: task.pairs[0].assignment, choice, response_ms: response });
    lock(true);
    byId("saved").hidden = true;
    send(FIRST_PAUSE);
  };

  const send = async (pause) => {
    const answer = kept.read();
    if (!answer) return;
    try {
      const reply = await fetch(page.dataset.submit, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-CSRFToken": page.dataset.csrf },
        body: JSON.stringify(answer),
      });
      if (reply.status >= 500 || reply.status === 429) throw new Error(String(reply.status));
      const body = await reply.json();
      settle(reply, body);
    } catch {
      byId("unsent").hidden = false;
      window.setTimeout(() => send(Math.min(pause * 2, LONGEST_PAUSE)), pause);
    }
  };

  const settle = (reply, body) => {
    byId("unsent").hidden = true;
    if (reply.status === 401 || reply.status === 403) {
      say(`${body.title} ${body.detail}`);
      return;
    }
    kept.clear();
    byId("saved").hidden = !reply.ok;
    say(reply.ok || reply.status === 409 ? "" : `${body.title} ${body.detail}`);
    if (body.next) show(body.next);
    else lock(false);
  };

  buttons.forEach((button) => button.addEventListener("click", () => choose(button.dataset.choice)));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const choice = KEYS[event.key];
    if (choice) {
      event.preventDefault();
      choose(choice);
    }
  });
  if (kept.read()) {
    lock(true);
    send(FIRST_PAUSE);
  }
})();
