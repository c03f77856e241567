// The elements of the judging page. Texts are inserted as text, never as markup; judge.js decides what to show.

const SETTLING_TIME = 500; // milliseconds; the second tap of a double tap does not reach a dialog that just opened

const FEEDBACK_TIME = 2000; // milliseconds
const LASTING_FEEDBACK_TIME = 8000;
const MAX_BAR_SHARE = 1 / 3; // of the window's height; a higher bar of buttons would hide the texts

const byId = (id) => document.getElementById(id);

const fill = (template, values) => template.replace(/\{(\w+)\}/g, (_, name) => values[name]);

const setText = (element, text) => {
  if (element.textContent !== text) element.textContent = text; // an unchanged live region is not read aloud again
};

export const createPage = (root) => {
  const texts = byId("texts").dataset;
  // A translated text of the page; a text called <name>One is used for n = 1.
  const text = (name, values = {}) => fill((values.n === 1 && texts[`${name}One`]) || texts[name], values);
  const choices = [...root.querySelectorAll("[data-choice]")];
  const note = byId("note");
  const reasons = byId("reasons");
  const help = byId("help");

  let dialogChangedAt = -SETTLING_TIME;

  const openDialog = (dialog) => {
    dialogChangedAt = performance.now();
    dialog.showModal();
  };

  // Ignore taps and clicks right after a dialog opened or closed. Keys and assistive technology have detail 0.
  const ignoreWhileSettling = (event) => {
    if (event.detail === 0 || performance.now() - dialogChangedAt >= SETTLING_TIME) return;
    event.preventDefault();
    event.stopPropagation();
  };

  // With large text the bar of buttons scrolls with the page. Its height is the same in both cases.
  const fitBar = () => {
    const bar = byId("choices");
    bar.classList.toggle("scrolls", bar.offsetHeight > window.innerHeight * MAX_BAR_SHARE);
  };

  const showGroup = (element, group) => {
    element.textContent = group;
    element.hidden = !group;
  };

  // A group that both texts share is shown once, above them.
  const showTexts = ({ left, right }) => {
    const shared = left.group === right.group ? left.group : "";
    showGroup(byId("group"), shared);
    Object.entries({ left, right }).forEach(([side, item]) => {
      byId(side).textContent = item.text;
      showGroup(byId(`${side}-group`), shared ? "" : item.group);
    });
  };

  const setLocked = (locked) => choices.forEach((button) => { button.disabled = locked; });

  const showProblem = (message, { reload = false, returning = false } = {}) => {
    setText(byId("problem-text"), message);
    byId("problem").hidden = !message;
    byId("reload").hidden = !reload;
    byId("return").hidden = !returning;
  };

  // Focus the heading of the new pair: screen readers read it, and Tab leads from there to the buttons.
  const showPair = (pair, { number, total, focus }) => {
    showTexts(pair);
    setText(byId("pair-heading"), text("pair", { n: number, total }));
    if (note) note.value = "";
    byId("pair").hidden = false;
    byId("waiting").hidden = true;
    if (!focus) return;
    window.scrollTo(0, 0);
    byId("pair-heading").focus({ preventScroll: true });
  };

  // The one live region. Its text always changes, because an unchanged one is not read aloud again.
  const announce = (message) => {
    const region = byId("announce");
    region.textContent = region.textContent === message ? `${message}\u00a0` : message;
  };

  let feedbackTimer = null;

  // A short message above the buttons, near the thumb. Screen readers get it from the live region.
  const showFeedback = (message, { lasting = false } = {}) => {
    clearTimeout(feedbackTimer);
    setText(byId("feedback"), message);
    byId("feedback").hidden = !message;
    const time = lasting ? LASTING_FEEDBACK_TIME : FEEDBACK_TIME;
    if (message) feedbackTimer = setTimeout(() => showFeedback(""), time);
  };

  // The seconds until the next attempt to reach the server; null if none is planned, 0 during one.
  const showCountdown = (seconds) => {
    byId("retry").hidden = seconds === null;
    byId("try-now").disabled = seconds === 0;
    setText(byId("countdown"), seconds ? text("countdown", { n: seconds }) : text("trying"));
  };

  const showWaiting = (message, { finished = false } = {}) => {
    setText(byId("waiting-text"), message);
    byId("finish").hidden = !finished;
    byId("pair").hidden = true;
    byId("waiting").hidden = false;
  };

  const showProgress = (done, total, minutes) => {
    byId("progress").max = total;
    byId("progress").value = done;
    setText(byId("count"), `${done} / ${total}`);
    const remaining = minutes === null || done >= total ? "remaining" : "minutes";
    setText(byId("remaining"), text(remaining, { n: remaining === "minutes" ? minutes : total - done }));
  };

  // Invisible rather than hidden: the line above the texts keeps its size.
  const setVisible = (id, visible) => byId(id).classList.toggle("invisible", !visible);

  const showUnsent = (count) => {
    setText(byId("unsent"), text("unsent", { n: count }));
    setVisible("unsent", count > 0);
  };

  return {
    text,
    setLocked,
    showProblem,
    showPair,
    showWaiting,
    showCountdown,
    showProgress,
    showUnsent,
    announce,
    showFeedback,
    hasChoice: (choice) => choices.some((button) => button.dataset.choice === choice),
    showSaved: (visible) => setVisible("saved", visible),
    setUndoEnabled: (enabled) => { byId("undo").disabled = !enabled; },
    note: () => note?.value.trim() ?? "",
    openReasons: () => openDialog(reasons),
    openHelp: () => openDialog(help),
    onChoice: (action) => choices.forEach((button) => {
      button.addEventListener("click", (event) => action(button.dataset.choice, event));
    }),
    onReason: (action) => {
      const pick = (button) => {
        reasons.close();
        action(button.dataset.reason);
      };
      const buttons = [...reasons.querySelectorAll("[data-reason]")];
      buttons.forEach((button) => button.addEventListener("click", () => pick(button)));
      reasons.addEventListener("keydown", ({ key, repeat }) => {
        if (!repeat && buttons[Number(key) - 1]) pick(buttons[Number(key) - 1]);
      });
    },
    onUndo: (action) => byId("undo").addEventListener("click", action),
    onReload: (action) => byId("reload").addEventListener("click", action),
    onFinish: (action) => byId("finish").addEventListener("submit", action),
    submitFinish: () => byId("finish").requestSubmit(),
    onTryNow: (action) => byId("try-now").addEventListener("click", action),
    onStop: (action) => byId("stop").addEventListener("submit", action),
    submitStop: () => byId("stop").submit(),
    shortcutsBox: byId("keys-on"),
    watchSize: () => {
      new ResizeObserver(fitBar).observe(byId("choices"));
      window.addEventListener("resize", fitBar);
    },
    connectDialogs: () => {
      root.addEventListener("click", ignoreWhileSettling, true);
      byId("open-help").addEventListener("click", () => openDialog(help));
      root.querySelectorAll("dialog").forEach((dialog) => {
        dialog.addEventListener("close", () => { dialogChangedAt = performance.now(); });
        dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
        dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
      });
      // Escape leaves the reason field, so that shortcuts work again.
      note?.addEventListener("keydown", ({ key }) => { if (key === "Escape") byId("pair-heading").focus(); });
    },
  };
};
