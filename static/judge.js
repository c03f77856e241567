// The judging page. An answer is stored on this device under an id made here, the next pair appears at once, and the
// answer is sent until the server acknowledges it; the server stores the same id only once.

import { listenForKeys } from "./judge/keyboard.js";
import { keepForOffline } from "./judge/offline.js";
import { createPace } from "./judge/pace.js";
import { createPage } from "./judge/page.js";
import { createPreviewSender, noStorage } from "./judge/preview.js";
import { createSender } from "./judge/sender.js";
import { createStore, newId, sessionFlag } from "./judge/store.js";

// Milliseconds.
const MIN_READING_TIME = 300; // a click or key that comes sooner was meant for the previous pair
const SLOW_SEND = 2500; // after this time an answer is shown as unsent
const LONG_HIDDEN = 30000; // a page hidden for longer fetches the current task
const FINISHED_PAUSE = 6000; // the last answer can be undone before the thank-you page
const HURRIED_ANSWER = 1000;
const OTHER_TAB_QUIET = 700; // fetch the task when the other tab has been quiet for this long
const HURRIED_IN_A_ROW = 4; // answers; then the page asks to read both texts

const root = document.getElementById("judge");
const isPreview = "preview" in root.dataset; // for researchers: nothing is stored or sent
const isOfflinePage = "offline" in root.dataset; // from the service worker: the pairs are in the store
const getStorage = isPreview ? noStorage : () => window.localStorage;
const store = createStore(root.dataset.store, getStorage);
const page = createPage(root);
const pace = createPace(root.dataset.store, getStorage);

const pageTask = JSON.parse(document.getElementById("task").textContent);
let task = (isOfflinePage && store.savedTask()) || pageTask;
let isOutdated = isOfflinePage; // until the server has sent the current task
let currentPair = null;
let shownAt = 0;
let pairAtPointerDown = null;
let pairAtSkip = null; // the pair for which the reasons were opened
let leaving = false;
let stopped = false;
let stopping = false; // whether the worker asked to stop while answers were being sent
let unsentSince = null;
let shownUnsent = 0;
let finishTimer = null;
let hurried = 0; // answers in a row
let dropping = false; // whether an undo is being decided
let news = ""; // what the next announcement to screen readers begins with

// State --------------------------------------------------------------------------------------------------------------

const queued = (kind) => store.entries().filter((entry) => entry.kind === kind);

const openPairs = () => {
  const answered = [...store.settled(), ...queued("judgement").map((entry) => entry.assignment)];
  return task.pairs.filter((pair) => !answered.includes(pair.assignment));
};

const countDone = () => {
  const done = task.done + queued("judgement").length - queued("retraction").length;
  return Math.min(task.total, Math.max(0, done));
};

const hasReachedQuota = () => task.finished && task.done >= task.total; // rather than stopped in another tab

const isConnected = () => navigator.onLine && !sender.isFailing();

const isUndoing = () => queued("retraction").length > 0 && isConnected();

const canUndo = () => {
  const last = store.last();
  return !stopped && !dropping && last?.kind !== "retraction" && Boolean(last ?? task.undo);
};

const isSendingSlow = () => sender.isFailing() || !navigator.onLine || performance.now() - unsentSince > SLOW_SEND;

const isOpen = (pair) => openPairs().some(({ assignment }) => assignment === pair?.assignment);

// Display ------------------------------------------------------------------------------------------------------------

const showPair = (pair) => {
  cancelFinish();
  const focus = shownAt > 0; // for the first pair, leave the focus where the browser puts it
  currentPair = pair;
  shownAt = performance.now();
  page.showPair(pair, { number: countDone() + 1, total: task.total, focus });
  if (focus) announce(page.text("pair", { n: countDone() + 1, total: task.total }));
};

const announce = (message) => {
  page.announce(`${news} ${message}`.trim());
  news = "";
};

const showNextPair = () => {
  if (isOpen(currentPair)) return;
  const [next] = openPairs();
  if (next) showPair(next);
  else showWaiting();
};

// No pair is available: answers are still being sent, another tab gave them, or the worker has finished.
const showWaiting = () => {
  const count = store.entries().length;
  if (!count && !task.pairs.length && !isOutdated) {
    finish();
    return;
  }
  if (!count && !sender.isFailing()) sender.sync();
  const message = waitingMessage(count);
  if (currentPair || news) announce(message);
  currentPair = null;
  page.showWaiting(message);
};

// After the last pair: a moment to undo the last answer, then the thank-you page.
const finish = () => {
  if (finishTimer) return;
  if (!task.undo) {
    leave();
    return;
  }
  finishTimer = setTimeout(leave, FINISHED_PAUSE);
  currentPair = null;
  const message = page.text("finished");
  announce(message);
  page.showWaiting(message, { finished: true });
};

// To the thank-you page: by the form if the worker has reached the quota, otherwise there may be more pairs later.
const leave = () => {
  if (isPreview || hasReachedQuota()) page.submitFinish();
  else reload();
};

const cancelFinish = () => {
  clearTimeout(finishTimer);
  finishTimer = null;
};

const waitingMessage = (count) => {
  const failing = sender.isFailing() ? "away" : "sending";
  const reason = navigator.onLine ? failing : "offline";
  return page.text(countDone() < task.total ? reason : `${reason}Last`, { n: count });
};

const showCountdown = () => {
  const wait = isConnected() || currentPair || finishTimer ? null : sender.nextTry();
  page.showCountdown(wait === null ? null : Math.ceil(wait / 1000));
};

const tryNow = async () => {
  const attempt = sender.tryNow();
  showCountdown();
  await attempt;
  refresh();
  if (!currentPair && !isConnected()) announce(waitingMessage(store.entries().length));
};

const refresh = () => {
  if (leaving) return;
  const count = store.entries().length;
  if (stopping) continueStopping(count);
  unsentSince = count ? unsentSince ?? performance.now() : null;
  const unsent = count && isSendingSlow() ? count : 0;
  if (unsent && !shownUnsent) news = `${news} ${page.text("unsent", { n: unsent })}.`;
  shownUnsent = unsent;
  if (!stopped) showNextPair();
  page.showProgress(countDone(), task.total, pace.minutes(task.total - countDone()));
  page.showUnsent(unsent);
  page.setLocked(stopped || !currentPair || isUndoing());
  page.setUndoEnabled(canUndo());
  showCountdown();
  if (news && !isUndoing()) announce(""); // an undo is announced together with its pair
  if (count && !stopped) window.addEventListener("beforeunload", warnBeforeLeaving);
  else window.removeEventListener("beforeunload", warnBeforeLeaving);
};

const warnBeforeLeaving = (event) => {
  event.preventDefault();
  event.returnValue = true; // needed by older browsers
};

const reload = () => {
  leaving = true;
  window.removeEventListener("beforeunload", warnBeforeLeaving);
  window.location.reload();
};

// The worker's actions -----------------------------------------------------------------------------------------------

const isTooSoon = () => performance.now() - shownAt < MIN_READING_TIME;

const isReady = () => !stopped && !leaving && !isUndoing() && isOpen(currentPair) && !isTooSoon();

const choose = (choice, reason = "") => {
  if (!isReady() || !page.hasChoice(choice)) return;
  const responseTime = Math.round(performance.now() - shownAt);
  store.add({
    kind: "judgement",
    uuid: newId(),
    assignment: currentPair.assignment,
    choice,
    skip_reason: reason,
    response_ms: responseTime,
    note: page.note(),
  });
  pace.add(responseTime);
  page.showSaved(false);
  page.showProblem("");
  news = page.text(choice, { n: countDone() });
  page.showFeedback(page.text("chosen", { choice: page.text(`${choice}Name`) }));
  if (isHurried(responseTime) && countDone() < task.total) askToRead();
  refresh();
  sender.send();
  setTimeout(refresh, SLOW_SEND + 100);
};

const isHurried = (responseTime) => {
  hurried = responseTime < HURRIED_ANSWER ? hurried + 1 : 0;
  return hurried === HURRIED_IN_A_ROW;
};

const askToRead = () => {
  const message = page.text("hurried");
  hurried = 0;
  news = `${news} ${message}`;
  page.showFeedback(message, { lasting: true });
};

const skip = () => {
  if (!isReady()) return;
  pairAtSkip = currentPair;
  page.openReasons();
};

const skipWithReason = (reason) => {
  if (pairAtSkip === currentPair) choose("skip", reason);
};

const undo = async () => {
  if (!canUndo() || isTooSoon()) return;
  const last = store.last();
  const choice = page.text(`${last ? last.choice : task.undo_choice}Name`);
  cancelFinish();
  page.showSaved(false);
  dropping = true;
  const dropped = last && (await sender.drop(last));
  dropping = false;
  if (dropped) {
    currentPair = null; // the pair is open again and comes first
  } else {
    store.add({ kind: "retraction", uuid: newId(), judgement: last ? last.uuid : task.undo });
    sender.send();
  }
  const message = page.text(dropped || isConnected() ? "undone" : "undoneLater", { choice });
  news = message;
  page.showFeedback(message, { lasting: true });
  refresh();
};

// Stop early. The thank-you page comes when every answer is on the server; offline there is nothing to wait for.
const stopHere = (event) => {
  event.preventDefault();
  stopping = true;
  sender.send();
  refresh();
};

const continueStopping = (count) => {
  stopping = false;
  if (!isConnected()) {
    page.showProblem(page.text("stopLater", { n: count }));
  } else if (count) {
    stopping = true;
    page.showProblem(page.text("stopping"));
  } else {
    leaving = true;
    window.removeEventListener("beforeunload", warnBeforeLeaving);
    page.submitStop();
  }
};

// Responses of the server --------------------------------------------------------------------------------------------

const useTask = (next) => {
  task = next;
  isOutdated = false;
  store.saveTask(next);
};

const onSettled = (entry, outcome, body) => {
  if (body.next) useTask(body.next);
  if (entry.kind === "retraction") currentPair = null;
  page.showSaved(!isPreview && outcome === "done" && entry.kind === "judgement" && !store.entries().length);
  if (outcome === "already" && entry.kind === "judgement") page.showProblem(page.text("already"));
  else if (outcome !== "done") page.showProblem(`${body.title} ${body.detail}`);
  if (!body.next) sender.sync();
  reloadedOutdated.clear();
  refresh();
};

const onTask = (next) => {
  useTask(next);
  if (!store.entries().length) store.reopen(next.pairs.map((pair) => pair.assignment)); // the server's list is current
  refresh();
};

const reloadedOutdated = sessionFlag(`${root.dataset.store}/outdated`); // a page with an expired CSRF token is reloaded once
const reportedOrphaned = sessionFlag(`${root.dataset.store}/orphaned`);

const reportOrphanedAnswers = () => {
  const count = store.orphanedCount();
  if (!count || reportedOrphaned.isSet()) return;
  reportedOrphaned.set();
  page.showProblem(page.text("orphaned", { n: count }), { returning: true });
};

const onStopped = (outcome, body) => {
  stopped = true;
  if (outcome === "outdated" && !reloadedOutdated.isSet()) {
    reloadedOutdated.set();
    reload();
    return;
  }
  const count = store.entries().length;
  const message = `${body.title} ${body.detail}`;
  page.showProblem(count ? `${message} ${page.text("stored", { n: count })}` : message, { reload: true });
  refresh();
};

const callbacks = { settled: onSettled, task: onTask, stopped: onStopped, waiting: refresh };

const sender = isPreview ? createPreviewSender({ store, getTask: () => task, callbacks }) : createSender({
  store,
  name: root.dataset.store,
  urls: { judgement: root.dataset.submit, retraction: root.dataset.retract, task: root.dataset.task },
  csrf: root.dataset.csrf,
  callbacks,
});

// Other tabs, and returning to the page ------------------------------------------------------------------------------

let quietTimer = null;
let hiddenAt = null;

const onStorage = ({ key }) => {
  if (!store.ownsKey(key)) return;
  const before = currentPair;
  refresh();
  if (before && currentPair !== before && !leaving) page.showProblem(page.text("already"));
  clearTimeout(quietTimer);
  quietTimer = setTimeout(sender.sync, OTHER_TAB_QUIET);
};

const onVisibilityChange = () => {
  if (document.hidden) hiddenAt = performance.now();
  else if (store.entries().length || performance.now() - hiddenAt > LONG_HIDDEN) sender.sync();
};

// Event listeners ----------------------------------------------------------------------------------------------------

const commands = {
  first: () => choose("left"),
  second: () => choose("right"),
  tie: () => choose("tie"),
  skip,
  undo,
  help: page.openHelp,
};

const shortcutsKey = `${root.dataset.store}/keys`;

const startShortcuts = () => {
  const box = page.shortcutsBox;
  try {
    box.checked = localStorage.getItem(shortcutsKey) !== "off";
    box.addEventListener("change", () => localStorage.setItem(shortcutsKey, box.checked ? "on" : "off"));
  } catch { /* without storage the setting lasts until the page is left */ }
  listenForKeys(root, { isEnabled: () => box.checked, run: (command) => commands[command]() });
};

// A press that began on another pair does not count. Keys and assistive technology click without a pointer (detail 0).
const onChoiceClick = (choice, event) => {
  if (event.detail > 0 && pairAtPointerDown !== currentPair) return;
  if (choice === "skip") skip();
  else choose(choice);
};

document.addEventListener("pointerdown", () => { pairAtPointerDown = currentPair; }, true);
window.addEventListener("storage", onStorage);
window.addEventListener("online", () => sender.sync());
window.addEventListener("offline", refresh);
window.addEventListener("pageshow", (event) => { if (event.persisted) sender.sync(); });
document.addEventListener("visibilitychange", onVisibilityChange);
page.connectDialogs();
page.watchSize();
page.onChoice(onChoiceClick);
page.onReason(skipWithReason);
page.onUndo(undo);
page.onTryNow(tryNow);
page.onStop(stopHere);
page.onReload(reload);
page.onFinish((event) => {
  leaving = true;
  if (hasReachedQuota()) return;
  event.preventDefault();
  reload();
});
startShortcuts();
reportOrphanedAnswers();
if (!isPreview && !isOfflinePage) useTask(pageTask);
refresh();
setInterval(showCountdown, 1000);
if (isOfflinePage) sender.sync();
else if (store.entries().length) sender.send();
if (root.dataset.serviceWorker) keepForOffline(root.dataset.serviceWorker);
