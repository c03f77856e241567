// Sends the entries of the store in order, one at a time, until the server has acknowledged them.
// The server accepts the same id only once, so a request whose response was lost is simply repeated.

// Milliseconds.
const MIN_RETRY = 1000;
const MAX_RETRY = 20000;
const REQUEST_TIMEOUT = 20000; // phones keep dead connections open
const MAX_RETRY_AFTER = 120000;
const OFFLINE_RETRY = 20000; // a browser that claims to be offline is usually right, but not always
const LOCK_TIMEOUT = 10000; // a suspended tab may hold the lock; sending twice is harmless, waiting forever is not

const toPayload = ({ key, kind, tried, ...fields }) => fields;

// Run in one tab at a time, and pass whether that is certain. Browsers without locks rely on the server's check for
// duplicates.
const withLock = async (name, action) => {
  if (!navigator.locks) return action(false);
  const waiting = new AbortController();
  const timer = setTimeout(() => waiting.abort(), LOCK_TIMEOUT);
  try {
    return await navigator.locks.request(name, { signal: waiting.signal }, () => {
      clearTimeout(timer);
      return action(true);
    });
  } catch (error) {
    if (error.name !== "AbortError") throw error;
    return action(false);
  }
};

const retryAfter = (response) => Math.min(1000 * Number(response.headers.get("Retry-After")) || 0, MAX_RETRY_AFTER);

const conflictOutcomes = { not_open: "closed", not_yours: "refused" };

const outcomeOf = (status, body) => {
  if (status === 401) return "unknown_worker";
  if (status === 403) return "outdated";
  if (status === 409) return conflictOutcomes[body.code] ?? "already";
  if (status >= 200 && status < 300) return "done";
  return [400, 404, 413, 415, 422].includes(status) ? "refused" : "later";
};

// Other responses (a captive portal, a proxy's error page) count as no response.
const isConcordResponse = (body) => ["pairs", "next", "title"].some((name) => Object.hasOwn(Object(body), name));

export const createSender = ({ store, name, urls, csrf, callbacks }) => {
  let busy = false;
  let locked = false; // whether this tab, and no other, is sending
  let again = false;
  let stopped = false;
  let failures = 0;
  let timer = null;
  let notBefore = 0;
  let nextAt = null; // when the next attempt is planned
  let wantsTask = false;

  const request = async (url, options) => {
    const timeout = new AbortController();
    const requestTimer = setTimeout(() => timeout.abort(), REQUEST_TIMEOUT);
    try {
      const response = await fetch(url, { ...options, signal: timeout.signal, redirect: "error" });
      const body = await response.json();
      if (!isConcordResponse(body)) return { outcome: "later", pause: 0 };
      return { outcome: outcomeOf(response.status, body), body, pause: retryAfter(response) };
    } catch {
      return { outcome: "later", pause: 0 };
    } finally {
      clearTimeout(requestTimer);
    }
  };

  const post = (entry) =>
    request(urls[entry.kind], {
      method: "POST",
      keepalive: true, // send even if the tab closes right after the answer
      headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRFToken": csrf },
      body: JSON.stringify(toPayload(entry)),
    });

  const settle = (entry, { outcome, body }) => {
    if (entry.kind === "judgement" && outcome !== "refused") store.settle(entry.assignment);
    if (entry.kind === "retraction" && body.next) store.reopen(body.next.pairs.map((pair) => pair.assignment));
    store.remove(entry);
    failures = 0;
    callbacks.settled(entry, outcome, body);
  };

  const sendAll = async () => {
    for (let entry = store.first(); entry && !stopped; entry = store.first()) {
      store.markTried(entry);
      const result = await post(entry);
      if (result.outcome === "later") return retryLater(result.pause);
      if (["done", "already", "refused"].includes(result.outcome)) settle(entry, result);
      else stop(result);
    }
    return true;
  };

  const fetchTask = async () => {
    const result = await request(urls.task, { headers: { Accept: "application/json" } });
    if (result.outcome === "done") {
      wantsTask = false;
      failures = 0;
      callbacks.task(result.body);
    } else if (result.outcome === "later") retryLater(result.pause);
    else stop(result);
  };

  const stop = ({ outcome, body }) => {
    stopped = true;
    callbacks.stopped(outcome, body);
  };

  const retryLater = (requestedPause) => {
    failures += 1;
    again = false;
    const backoff = Math.min(MIN_RETRY * 2 ** (failures - 1), MAX_RETRY);
    const jitter = 0.5 + Math.random() / 2; // so that not all workers retry at the same time
    const pause = Math.max(requestedPause, navigator.onLine ? backoff * jitter : OFFLINE_RETRY);
    notBefore = performance.now() + requestedPause;
    plan(pause, { offline: !navigator.onLine });
    callbacks.waiting();
    return false;
  };

  const plan = (pause, options) => {
    clearTimeout(timer);
    nextAt = performance.now() + pause;
    timer = setTimeout(() => run(options), pause + 10); // timers can fire slightly early
  };

  // Offline, nothing is sent at first: an answer that was never sent can be undone on this device alone.
  const run = async ({ offline = false } = {}) => {
    if (busy || stopped || performance.now() < notBefore) {
      again = busy;
      return;
    }
    if (!navigator.onLine && !offline) {
      if (nextAt === null) plan(OFFLINE_RETRY, { offline: true });
      return;
    }
    busy = true;
    clearTimeout(timer);
    nextAt = null;
    await withLock(name, async (exclusive) => {
      locked = exclusive;
      if ((await sendAll()) && wantsTask && !stopped) await fetchTask();
      locked = false;
    });
    busy = false;
    if (again) {
      again = false;
      run();
    }
  };

  // Drop an answer that no tab has tried to send; returns whether that was possible.
  const drop = async (entry) => {
    const removeIfUntried = () => {
      const untried = store.entries().some(({ key, tried }) => key === entry.key && !tried);
      if (untried) store.remove(entry);
      return untried;
    };
    // While this tab is sending, an entry is marked as tried in the same step in which it is taken.
    if (locked || !navigator.locks) return removeIfUntried();
    return navigator.locks.request(name, { ifAvailable: true }, (lock) => lock !== null && removeIfUntried());
  };

  return {
    send: () => run(),
    drop,
    // Send what is left, then fetch the worker's current task.
    sync: () => {
      wantsTask = true;
      return run();
    },
    // Try at once, whatever the browser says about the connection; a pause that the server asked for is kept.
    tryNow: () => {
      wantsTask = true;
      return run({ offline: true });
    },
    isFailing: () => failures > 0,
    // Milliseconds until the next attempt: 0 during one, null if none is planned.
    nextTry: () => {
      if (busy) return 0;
      return nextAt === null ? null : Math.max(nextAt - performance.now(), 1);
    },
  };
};
