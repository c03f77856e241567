// Keeps a dashboard current. A WebSocket message says that something changed; the page then fetches that part by HTTP.
// Messages are hints only: when the socket breaks it reconnects with growing delays, and the page catches up.
(() => {
  "use strict";
  const live = document.getElementById("live");
  if (!live) return;

  const FIRST_DELAY = 500;
  const LONGEST_DELAY = 15000;
  const LONGEST_SILENCE = 45000; // the server repeats its state every 30 seconds
  const FETCH_TIMEOUT = 30000; // a request that never ends would block all later ones
  const NOTICE_DELAY = 5000;
  const REFRESH_AFTER = 60000; // some facts, such as who is active now, change with time alone
  const TOO_MANY = 4429; // as in modelling/web/live.py
  const pausedNotice = document.getElementById("live-paused");
  const crowdedNotice = document.getElementById("live-crowded");
  const { revision, labels, mark, changed: lastChange } = live.dataset;
  let shown = { revision: Number(revision), labels: Number(labels), mark, changed: Number(lastChange) };
  let delay = FIRST_DELAY;
  let fetchedAt = Date.now();
  let nextPart = null; // the part to fetch next: "status", or "1" for the whole live part
  let fetching = false;
  let ready = null; // the newest live part, kept until the user is not using the page
  let pressed = false;
  let noticeTimer = null;

  // A query sent by POST is not in the address: the same query is sent again, even if the user has typed something else since.
  const submittedForm = document.querySelector("form[data-submitted]");
  const submitted = submittedForm && new FormData(submittedForm);

  // A page about one version fetches only its status for each new judgement. A change by a user (a name, a state, an
  // erased person) may affect any part of the page.
  const partFor = (state) => {
    const same = (...names) => names.every((name) => state[name] === shown[name]);
    const followsVersion = live.dataset.follows === "revision";
    if (same("revision", "labels", "mark", "changed")) {
      return !followsVersion && Date.now() - fetchedAt >= REFRESH_AFTER ? "1" : null;
    }
    return followsVersion && state.revision > 0 && same("revision", "changed") ? "status" : "1";
  };

  const refresh = async (part) => {
    if (nextPart !== "1") nextPart = part;
    if (fetching) return;
    fetching = true;
    while (nextPart) {
      const current = nextPart;
      nextPart = null;
      await fetchPart(current);
    }
    fetching = false;
  };

  const fetchPart = async (part) => {
    if (part !== "status") fetchedAt = Date.now();
    try {
      const address = new URL(window.location.href);
      address.searchParams.set("fragment", part);
      const request = submitted && part !== "status" ? { method: "POST", body: submitted } : {};
      const signal = AbortSignal.timeout(FETCH_TIMEOUT);
      const response = await fetch(address, { ...request, headers: { Accept: "text/html" }, signal });
      if (response.redirected || response.status === 404) window.location.reload(); // logged out or no longer a member
      else if (response.ok) show(part, await response.text());
      else shown = {}; // the next message fetches again
    } catch {
      shown = {};
    }
  };

  // The status lines are replaced at once, the rest when the user is not using it.
  const show = (part, html) => {
    const fresh = document.adoptNode(new DOMParser().parseFromString(html, "text/html").body);
    const status = fresh.querySelector("#status");
    const oldStatus = document.getElementById("status");
    if (status && oldStatus) oldStatus.replaceWith(part === "status" ? status : status.cloneNode(true));
    if (part === "status") return;
    ready = fresh;
    replace();
  };

  // A button that is being pressed, or a list that is open, must not disappear.
  const replace = () => {
    const active = document.activeElement;
    if (!ready || pressed || (active.matches("select") && live.contains(active))) return;
    const fresh = ready;
    ready = null;
    const selection = active.matches("input, textarea") ? [active.selectionStart, active.selectionEnd] : null;
    preserve(fresh);
    live.replaceChildren(...fresh.childNodes);
    if (active !== document.activeElement && live.contains(active)) {
      active.focus({ preventScroll: true });
      if (selection && selection[0] !== null) active.setSelectionRange(...selection);
    }
    document.dispatchEvent(new CustomEvent("live:replaced"));
  };

  const replaceSoon = () => window.setTimeout(replace, 0);
  document.addEventListener("pointerdown", () => { pressed = true; }, true);
  for (const name of ["pointerup", "pointercancel"]) {
    document.addEventListener(name, () => { pressed = false; replaceSoon(); }, true);
  }
  live.addEventListener("focusout", replaceSoon);
  live.addEventListener("change", replaceSoon);

  // Drawn figures, open <details> and forms in use are carried over to the new part.
  const preserve = (fresh) => {
    for (const placeholder of fresh.querySelectorAll("[data-keep]")) {
      const kept = document.getElementById(placeholder.id);
      if (kept) placeholder.replaceWith(kept);
    }
    for (const open of live.querySelectorAll("details[id][open]")) {
      const again = fresh.querySelector(`#${CSS.escape(open.id)}`);
      if (again) again.open = true;
    }
    const forms = formsIn(fresh);
    for (const [name, form] of formsIn(live)) {
      if (inUse(form) && forms.has(name)) forms.get(name).replaceWith(form);
    }
  };

  // The forms of a part by method and action, numbered among those that share both.
  const formsIn = (part) => {
    const found = new Map();
    for (const form of part.querySelectorAll("form")) {
      const target = `${form.method} ${form.getAttribute("action")}`;
      const before = [...found.keys()].filter((name) => name.startsWith(`${target} #`)).length;
      found.set(`${target} #${before}`, form);
    }
    return found;
  };

  const inUse = (form) => form.contains(document.activeElement) || [...form.elements].some(isChanged);

  const isChanged = (field) => {
    if (field.matches("select")) return [...field.options].some((option) => option.selected !== option.defaultSelected);
    if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
    return field.matches("input, textarea") && field.value !== field.defaultValue;
  };

  // The notice appears after a delay: short interruptions need none.
  const setPaused = (paused) => {
    live.dataset.state = paused ? "paused" : "live";
    window.clearTimeout(noticeTimer);
    noticeTimer = paused ? window.setTimeout(() => { pausedNotice.hidden = false; }, NOTICE_DELAY) : null;
    if (!paused) pausedNotice.hidden = true;
  };

  const connect = () => {
    const scheme = window.location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${window.location.host}${live.dataset.socket}`);
    let closed = false;
    let received = false;
    let silenceTimer = null;
    const disconnected = (event) => {
      if (closed) return;
      closed = true;
      window.clearTimeout(silenceTimer);
      socket.close();
      crowdedNotice.hidden = event?.code !== TOO_MANY;
      if (!crowdedNotice.hidden) setPaused(false);
      else if (noticeTimer === null) setPaused(true);
      if (!received) refresh("status"); // redirects to the login page if the session has ended
      window.setTimeout(connect, delay * (0.5 + Math.random()));
      delay = Math.min(delay * 2, LONGEST_DELAY);
    };
    silenceTimer = window.setTimeout(() => disconnected(), LONGEST_SILENCE);
    socket.addEventListener("message", (event) => {
      if (closed) return;
      received = true;
      crowdedNotice.hidden = true;
      window.clearTimeout(silenceTimer);
      silenceTimer = window.setTimeout(() => disconnected(), LONGEST_SILENCE);
      delay = FIRST_DELAY; // only a message shows that the server works: a socket can open and close at once
      setPaused(false);
      const state = JSON.parse(event.data);
      const part = partFor(state);
      shown = state;
      if (part) refresh(part);
    });
    socket.addEventListener("close", disconnected);
    window.addEventListener("offline", disconnected, { once: true });
  };

  connect();
})();
