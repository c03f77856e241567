// A worker's page. An answer is written down on this device under an id made here, the next pair appears at once, and
// the answer is sent, again if need be, until the server has acknowledged it: the same id twice is one judgement.

import { listen } from "./judge/keyboard.js";
import { createPage } from "./judge/page.js";
import { createSender } from "./judge/sender.js";
import { createStore, newId } from "./judge/store.js";

// Nobody reads two texts in this time: a click or key that comes sooner was meant for the pair before.
const SETTLING = 300;
const SLOW = 2500; // an answer under way for longer is shown as unsent
const AWAY = 30000; // a page hidden for longer asks where the worker stands
const OTHER_TAB = 700; // another tab is at work: ask once it has been quiet for so long

const root = document.getElementById("judge");
const store = createStore(root.dataset.store);
const page = createPage(root);
const isPreview = "preview" in root.dataset; // a researcher looks; nothing is kept or sent

let task = JSON.parse(document.getElementById("task").textContent);
let shown = null; // the pair on the screen
let shownAt = 0;
let pressedOn = null; // the pair on the screen when the pointer went down
let askedAbout = null; // the pair on the screen when the reasons were opened
let leaving = false;
let stopped = false;
let unsentSince = null;

// What there is to do ------------------------------------------------------------------------------------------------

const queued = (kind) => store.entries().filter((entry) => entry.kind === kind);

const openPairs = () => {
  const answered = [...store.settled(), ...queued("judgement").map((entry) => entry.assignment)];
  return task.pairs.filter((pair) => !answered.includes(pair.assignment));
};

const doneSoFar = () => {
  const done = task.done + queued("judgement").length - queued("retraction").length;
  return Math.min(task.total, Math.max(0, done));
};

const isUndoing = () => queued("retraction").length > 0 && !sender.failing();

const canUndo = () => {
  const last = store.last();
  return !stopped && last?.kind !== "retraction" && Boolean(last ?? task.undo);
};

const isSlow = () => sender.failing() || !navigator.onLine || performance.now() - unsentSince > SLOW;

// What is shown ------------------------------------------------------------------------------------------------------

const present = (pair) => {
  const focus = shownAt > 0; // on arrival the focus stays where the browser puts it
  shown = pair;
  shownAt = performance.now();
  page.present(pair, { number: doneSoFar() + 1, total: task.total, focus });
};

const isOpen = (pair) => openPairs().some(({ assignment }) => assignment === pair?.assignment);

const showPair = () => {
  if (isOpen(shown)) return;
  const [next] = openPairs();
  if (next) present(next);
  else rest();
};

// No pair is at hand: the answers are still under way, another tab gave them, or the work is done.
const rest = () => {
  const kept = store.entries().length;
  if (!kept && !task.pairs.length) {
    reload();
    return;
  }
  if (!kept && !sender.failing()) sender.catchUp();
  shown = null;
  page.rest(page.say(whyWaiting(), { n: kept }));
};

const whyWaiting = () => {
  if (!navigator.onLine) return "offline";
  return sender.failing() ? "away" : "sending";
};

const refresh = () => {
  if (leaving) return;
  const kept = store.entries().length;
  unsentSince = kept ? unsentSince ?? performance.now() : null;
  if (!stopped) showPair();
  page.progress(doneSoFar(), task.total);
  page.unsent(kept && isSlow() ? kept : 0);
  page.lock(stopped || !shown || isUndoing());
  page.allowUndo(canUndo());
  if (kept && !stopped) window.addEventListener("beforeunload", warn);
  else window.removeEventListener("beforeunload", warn);
};

const warn = (event) => {
  event.preventDefault();
  event.returnValue = true; // for browsers that know only this
};

const reload = () => {
  leaving = true;
  window.removeEventListener("beforeunload", warn);
  window.location.reload();
};

// What the worker does -----------------------------------------------------------------------------------------------

const isTooSoon = () => performance.now() - shownAt < SETTLING;

const isReady = () => !stopped && !leaving && !isUndoing() && isOpen(shown) && !isTooSoon();

const choose = (choice, reason = "") => {
  if (!isReady() || !page.offers(choice)) return;
  if (isPreview) {
    page.notice(page.say("preview"));
    return;
  }
  store.add({
    kind: "judgement",
    uuid: newId(),
    assignment: shown.assignment,
    choice,
    skip_reason: reason,
    response_ms: Math.round(performance.now() - shownAt),
    note: page.note(),
  });
  page.saved(false);
  page.notice("");
  page.announce(page.say(choice, { n: doneSoFar() }));
  refresh();
  sender.send();
  setTimeout(refresh, SLOW + 100);
};

const askWhy = () => {
  if (!isReady()) return;
  askedAbout = shown;
  page.askWhy();
};

const giveReason = (reason) => {
  if (askedAbout === shown) choose("skip", reason);
};

const undo = async () => {
  if (!canUndo() || isTooSoon()) return;
  const last = store.last();
  page.saved(false);
  page.announce(page.say("undone"));
  if (last && (await sender.forget(last))) {
    shown = null; // the pair is open again, and the first
  } else {
    store.add({ kind: "retraction", uuid: newId(), judgement: last ? last.uuid : task.undo });
    sender.send();
  }
  refresh();
};

// What the server says -----------------------------------------------------------------------------------------------

const settled = (entry, outcome, body) => {
  if (body.next) task = body.next;
  if (entry.kind === "retraction") shown = null;
  page.saved(outcome === "done" && entry.kind === "judgement" && !store.entries().length);
  if (outcome === "already" && entry.kind === "judgement") page.notice(page.say("already"));
  else if (outcome !== "done") page.notice(`${body.title} ${body.detail}`);
  if (!body.next) sender.catchUp();
  outdated.clear();
  refresh();
};

const learned = (next) => {
  task = next;
  if (!store.entries().length) store.reopen(next.pairs.map((pair) => pair.assignment)); // the server has the last word
  refresh();
};

// What this tab remembers until it is closed. Without storage it counts as remembered: nothing is repeated for ever.
const remembered = (what) => {
  const key = `${root.dataset.store}/${what}`;
  const attempt = (action) => {
    try {
      return action();
    } catch {
      return true;
    }
  };
  return {
    set: () => attempt(() => sessionStorage.setItem(key, "1")),
    clear: () => attempt(() => sessionStorage.removeItem(key)),
    isSet: () => attempt(() => sessionStorage.getItem(key) !== null),
  };
};

const outdated = remembered("outdated"); // a page whose token has run out is loaded anew, once
const toldOfStrays = remembered("strays");

const tellOfStrays = () => {
  const count = store.strays();
  if (!count || toldOfStrays.isSet()) return;
  toldOfStrays.set();
  page.notice(page.say("strays", { n: count }));
};

const halted = (outcome, body) => {
  stopped = true;
  if (outcome === "outdated" && !outdated.isSet()) {
    outdated.set();
    reload();
    return;
  }
  const kept = store.entries().length;
  const words = `${body.title} ${body.detail}`;
  page.notice(kept ? `${words} ${page.say("kept", { n: kept })}` : words, { reload: true });
  refresh();
};

const nobody = { send: () => {}, catchUp: () => {}, forget: async () => false, failing: () => false };

const sender = isPreview ? nobody : createSender({
  store,
  name: root.dataset.store,
  addresses: { judgement: root.dataset.submit, retraction: root.dataset.retract, task: root.dataset.task },
  csrf: root.dataset.csrf,
  report: { settled, task: learned, stopped: halted, waiting: refresh },
});

// Other tabs, and coming back ----------------------------------------------------------------------------------------

let quiet = null;
let hiddenAt = null;

const otherTabWrote = ({ key }) => {
  if (!store.isOurs(key)) return;
  const before = shown;
  refresh();
  if (before && shown !== before && !leaving) page.notice(page.say("already"));
  clearTimeout(quiet);
  quiet = setTimeout(sender.catchUp, OTHER_TAB);
};

const visibilityChanged = () => {
  if (document.hidden) hiddenAt = performance.now();
  else if (store.entries().length || performance.now() - hiddenAt > AWAY) sender.catchUp();
};

// The wires ----------------------------------------------------------------------------------------------------------

const commands = {
  first: () => choose("left"),
  second: () => choose("right"),
  tie: () => choose("tie"),
  skip: askWhy,
  undo,
  help: page.showHelp,
};

const keysKey = `${root.dataset.store}/keys`;

const startKeys = () => {
  const keys = page.keySwitch;
  try {
    keys.checked = localStorage.getItem(keysKey) !== "off";
    keys.addEventListener("change", () => localStorage.setItem(keysKey, keys.checked ? "on" : "off"));
  } catch { /* without storage the switch holds until the page is left */ }
  listen(root, { isOn: () => keys.checked, run: (command) => commands[command]() });
};

// A press that began on another pair does not count; keys and assistive technology press without a pointer (detail 0).
const byPointer = (choice, event) => {
  if (event.detail > 0 && pressedOn !== shown) return;
  if (choice === "skip") askWhy();
  else choose(choice);
};

document.addEventListener("pointerdown", () => { pressedOn = shown; }, true);
window.addEventListener("storage", otherTabWrote);
window.addEventListener("online", () => sender.catchUp());
window.addEventListener("offline", refresh);
window.addEventListener("pageshow", (event) => { if (event.persisted) sender.catchUp(); });
document.addEventListener("visibilitychange", visibilityChanged);
page.prepare();
page.onChoice(byPointer);
page.onReason(giveReason);
page.onUndo(undo);
page.onReload(reload);
startKeys();
tellOfStrays();
refresh();
if (store.entries().length) sender.send();
