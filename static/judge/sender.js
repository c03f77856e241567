// Sends what the store holds, in order and one at a time, until the server has acknowledged it.
// The server takes the same id twice as once, so a send whose answer was lost is simply repeated.

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 20000;
const PATIENCE = 20000; // a request without an answer for so long is lost: phones keep dead connections open
const LONGEST_ASKED = 120000; // a server that asks for more than this is asked again all the same
const LOCK_PATIENCE = 10000; // a tab put to sleep may hold the lock; sending twice is harmless, waiting for ever is not

const wireForm = ({ key, kind, tried, ...fields }) => fields;

// One tab at a time. Browsers without locks rely on the server alone.
const alone = async (name, action) => {
  if (!navigator.locks) return action();
  const waiting = new AbortController();
  const timer = setTimeout(() => waiting.abort(), LOCK_PATIENCE);
  try {
    return await navigator.locks.request(name, { signal: waiting.signal }, () => {
      clearTimeout(timer);
      return action();
    });
  } catch (error) {
    if (error.name !== "AbortError") throw error;
    return action();
  }
};

const pauseAsked = (reply) => Math.min(1000 * Number(reply.headers.get("Retry-After")) || 0, LONGEST_ASKED);

const conflicts = { not_open: "closed", not_yours: "refused" };

// What an answer means. Anything that is not our own JSON (a captive portal, a proxy's page) counts as no answer.
const meaning = (status, body) => {
  if (status === 401) return "stranger";
  if (status === 403) return "outdated";
  if (status === 409) return conflicts[body.code] ?? "already";
  if (status >= 200 && status < 300) return "done";
  return [400, 404, 413, 415, 422].includes(status) ? "refused" : "later";
};

const isOurs = (body) => ["pairs", "next", "title"].some((name) => Object.hasOwn(Object(body), name));

export const createSender = ({ store, name, addresses, csrf, report }) => {
  let busy = false;
  let again = false;
  let stopped = false;
  let failures = 0;
  let timer = null;
  let notBefore = 0;
  let wantsTask = false;

  const ask = async (address, options) => {
    const giveUp = new AbortController();
    const clock = setTimeout(() => giveUp.abort(), PATIENCE);
    try {
      const reply = await fetch(address, { ...options, signal: giveUp.signal, redirect: "error" });
      const body = await reply.json();
      if (!isOurs(body)) return { outcome: "later", pause: 0 };
      return { outcome: meaning(reply.status, body), body, pause: pauseAsked(reply) };
    } catch {
      return { outcome: "later", pause: 0 };
    } finally {
      clearTimeout(clock);
    }
  };

  const post = (entry) =>
    ask(addresses[entry.kind], {
      method: "POST",
      keepalive: true, // an answer given just before the tab closes still goes out
      headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRFToken": csrf },
      body: JSON.stringify(wireForm(entry)),
    });

  const settle = (entry, { outcome, body }) => {
    if (entry.kind === "judgement" && outcome !== "refused") store.settle(entry.assignment);
    if (entry.kind === "retraction" && body.next) store.reopen(body.next.pairs.map((pair) => pair.assignment));
    store.remove(entry);
    failures = 0;
    report.settled(entry, outcome, body);
  };

  const sendAll = async () => {
    for (let entry = store.first(); entry && !stopped; entry = store.first()) {
      store.markTried(entry);
      const answer = await post(entry);
      if (answer.outcome === "later") return tryLater(answer.pause);
      if (["done", "already", "refused"].includes(answer.outcome)) settle(entry, answer);
      else stop(answer);
    }
    return true;
  };

  const fetchTask = async () => {
    const answer = await ask(addresses.task, { headers: { Accept: "application/json" } });
    if (answer.outcome === "done") {
      wantsTask = false;
      failures = 0;
      report.task(answer.body);
    } else if (answer.outcome === "later") tryLater(answer.pause);
    else stop(answer);
  };

  const stop = ({ outcome, body }) => {
    stopped = true;
    report.stopped(outcome, body);
  };

  const tryLater = (asked) => {
    failures += 1;
    again = false;
    const longest = Math.min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE);
    const spread = 0.5 + Math.random() / 2; // so that a crowd does not come back all at once
    const pause = Math.max(asked, longest * spread);
    notBefore = performance.now() + asked;
    clearTimeout(timer);
    timer = setTimeout(run, pause + 10); // timers may be a little early
    report.waiting();
    return false;
  };

  const run = async () => {
    if (busy || stopped || performance.now() < notBefore) {
      again = busy;
      return;
    }
    busy = true;
    clearTimeout(timer);
    await alone(name, async () => {
      if ((await sendAll()) && wantsTask && !stopped) await fetchTask();
    });
    busy = false;
    if (again) {
      again = false;
      run();
    }
  };

  // An answer that no tab has begun to send can be dropped as if it had never been given.
  const forget = async (entry) => {
    if (busy || entry.tried) return false;
    const drop = () => {
      const untried = store.entries().some(({ key, tried }) => key === entry.key && !tried);
      if (untried) store.remove(entry);
      return untried;
    };
    if (!navigator.locks) return drop();
    return navigator.locks.request(name, { ifAvailable: true }, (lock) => lock !== null && drop());
  };

  return {
    send: run,
    forget,
    // Sends what is left, then asks where the worker stands.
    catchUp: () => {
      wantsTask = true;
      return run();
    },
    failing: () => failures > 0,
  };
};
