// Keeps a dashboard current: a socket says that something changed, the page then fetches that part by HTTP.
// Messages are only hints; when the socket breaks, it is opened again with growing pauses and the page caught up.
(() => {
  "use strict";
  const live = document.getElementById("live");
  if (!live) return;

  const FIRST_PAUSE = 500;
  const LONGEST_PAUSE = 15000;
  const LONGEST_SILENCE = 45000; // the server repeats itself every 30 seconds; a dead network says nothing at all
  const SAY_AFTER = 5000;
  const TOO_MANY = 4429; // as in modelling/live.py
  const note = document.getElementById("live-paused");
  const crowded = document.getElementById("live-crowded");
  let pause = FIRST_PAUSE;
  const AGES_AFTER = 60000; // who is at work now changes with time alone
  const { revision, labels, mark, changed: byHand } = live.dataset;
  let shown = { revision: Number(revision), labels: Number(labels), mark, changed: Number(byHand) };
  let fetchedAt = Date.now();
  let wanted = null; // the part to fetch next: "status" or the whole live part, "1"
  let fetching = false;
  let ready = null; // the newest live part, until no hand is on the page
  let pressed = false;
  let saying = null;

  // A question that came by POST does not stand in the address: it is asked again as it was, whatever is typed since.
  const question = document.querySelector("form[data-asked]");
  const asked = question && new FormData(question);

  // A page about one version need not be fetched again for every judgement: only the lines about its freshness. What
  // somebody changed by hand (a name, a state, a person erased) may be anywhere on it.
  const partFor = (told) => {
    const same = (...names) => names.every((name) => told[name] === shown[name]);
    const followsVersion = live.dataset.follows === "revision";
    if (same("revision", "labels", "mark", "changed")) {
      return !followsVersion && Date.now() - fetchedAt >= AGES_AFTER ? "1" : null;
    }
    return followsVersion && told.revision > 0 && same("revision", "changed") ? "status" : "1";
  };

  const refresh = async (part) => {
    if (wanted !== "1") wanted = part;
    if (fetching) return;
    fetching = true;
    while (wanted) {
      const now = wanted;
      wanted = null;
      await fetchPart(now);
    }
    fetching = false;
  };

  const fetchPart = async (part) => {
    if (part !== "status") fetchedAt = Date.now();
    try {
      const address = new URL(window.location.href);
      address.searchParams.set("fragment", part);
      const how = asked && part !== "status" ? { method: "POST", body: asked } : {};
      const answer = await fetch(address, { ...how, headers: { Accept: "text/html" } });
      if (answer.redirected || answer.status === 404) window.location.reload(); // logged out, or no longer a member
      else if (answer.ok) take(part, await answer.text());
      else shown = {}; // the next message asks again
    } catch {
      shown = {};
    }
  };

  // The lines about freshness are changed at once, the rest when no hand is on it.
  const take = (part, html) => {
    const fresh = document.adoptNode(new DOMParser().parseFromString(html, "text/html").body);
    const status = fresh.querySelector("#status");
    const old = document.getElementById("status");
    if (status && old) old.replaceWith(part === "status" ? status : status.cloneNode(true));
    if (part === "status") return;
    ready = fresh;
    replace();
  };

  // A button that is being pressed, or a list that is open, must not be taken away under the hand.
  const replace = () => {
    const active = document.activeElement;
    if (!ready || pressed || (active.matches("select") && live.contains(active))) return;
    const fresh = ready;
    ready = null;
    const selection = active.matches("input, textarea") ? [active.selectionStart, active.selectionEnd] : null;
    keep(fresh);
    live.replaceChildren(...fresh.childNodes);
    if (active !== document.activeElement && live.contains(active)) {
      active.focus({ preventScroll: true });
      if (selection && selection[0] !== null) active.setSelectionRange(...selection);
    }
    document.dispatchEvent(new CustomEvent("live:replaced"));
  };

  const soon = () => window.setTimeout(replace, 0);
  document.addEventListener("pointerdown", () => { pressed = true; }, true);
  for (const name of ["pointerup", "pointercancel"]) {
    document.addEventListener(name, () => { pressed = false; soon(); }, true);
  }
  live.addEventListener("focusout", soon);
  live.addEventListener("change", soon);

  // What a script has drawn stays and is drawn over; what was unfolded stays unfolded; a form in use stays as it is.
  const keep = (fresh) => {
    for (const spot of fresh.querySelectorAll("[data-keep]")) {
      const kept = document.getElementById(spot.id);
      if (kept) spot.replaceWith(kept);
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

  // The forms of a part by what they do and their number among those that do the same.
  const formsIn = (part) => {
    const found = new Map();
    for (const form of part.querySelectorAll("form")) {
      const does = `${form.method} ${form.getAttribute("action")}`;
      const before = [...found.keys()].filter((name) => name.startsWith(`${does} #`)).length;
      found.set(`${does} #${before}`, form);
    }
    return found;
  };

  const inUse = (form) => form.contains(document.activeElement) || [...form.elements].some(changed);

  const changed = (field) => {
    if (field.matches("select")) return [...field.options].some((option) => option.selected !== option.defaultSelected);
    if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
    return field.matches("input, textarea") && field.value !== field.defaultValue;
  };

  // Said only after a while: a short break heals before anybody reads about it.
  const paused = (now) => {
    live.dataset.state = now ? "paused" : "live";
    window.clearTimeout(saying);
    saying = now ? window.setTimeout(() => { note.hidden = false; }, SAY_AFTER) : null;
    if (!now) note.hidden = true;
  };

  const connect = () => {
    const scheme = window.location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${window.location.host}${live.dataset.socket}`);
    let over = false;
    let spoke = false;
    let silence = null;
    const lost = (event) => {
      if (over) return;
      over = true;
      window.clearTimeout(silence);
      socket.close();
      crowded.hidden = event?.code !== TOO_MANY;
      if (!crowded.hidden) paused(false);
      else if (saying === null) paused(true);
      if (!spoke) refresh("status"); // whoever has logged out elsewhere is led to the door
      window.setTimeout(connect, pause * (0.5 + Math.random()));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    };
    silence = window.setTimeout(() => lost(), LONGEST_SILENCE);
    socket.addEventListener("message", (event) => {
      if (over) return;
      spoke = true;
      crowded.hidden = true;
      window.clearTimeout(silence);
      silence = window.setTimeout(() => lost(), LONGEST_SILENCE);
      pause = FIRST_PAUSE; // a server that speaks is well; one that only opens the door may be not
      paused(false);
      const told = JSON.parse(event.data);
      const part = partFor(told);
      shown = told;
      if (part) refresh(part);
    });
    socket.addEventListener("close", lost);
    window.addEventListener("offline", lost, { once: true });
  };

  connect();
})();
