// What the worker sees. Texts go in as text, never as markup; what to show is decided elsewhere.

const byId = (id) => document.getElementById(id);

const fill = (words, numbers) => words.replace(/\{(\w+)\}/g, (_, name) => numbers[name]);

const setText = (element, text) => {
  if (element.textContent !== text) element.textContent = text; // an unchanged live region stays silent
};

export const createPage = (root) => {
  const words = byId("words").dataset;
  const say = (name, numbers = {}) => fill(words[name], numbers);
  const choices = [...root.querySelectorAll("[data-choice]")];
  const note = byId("note");
  const reasons = byId("reasons");
  const help = byId("help");

  const showSide = (side, { text, group }) => {
    byId(side).textContent = text;
    byId(`${side}-group`).textContent = group;
    byId(`${side}-group`).hidden = !group;
  };

  const lock = (locked) => choices.forEach((button) => { button.disabled = locked; });

  const notice = (text, { reload = false } = {}) => {
    setText(byId("trouble-words"), text);
    byId("trouble").hidden = !text;
    byId("reload").hidden = !reload;
  };

  // Focus goes to the heading of the new pair: one Tab from the buttons, and read aloud where a screen reader listens.
  const present = (pair, { number, total, focus }) => {
    showSide("left", pair.left);
    showSide("right", pair.right);
    setText(byId("pair-heading"), say("pair", { n: number, total }));
    if (note) note.value = "";
    byId("pair").hidden = false;
    byId("rest").hidden = true;
    if (!focus) return;
    window.scrollTo(0, 0);
    byId("pair-heading").focus({ preventScroll: true });
  };

  const announce = (text) => setText(byId("announce"), text);

  const rest = (text) => {
    announce(text);
    setText(byId("rest-words"), text);
    byId("pair").hidden = true;
    byId("rest").hidden = false;
  };

  const progress = (done, total) => {
    byId("progress").max = total;
    byId("progress").value = done;
    setText(byId("count"), `${done} / ${total}`);
    setText(byId("remaining"), say("remaining", { n: total - done }));
  };

  const unsent = (count) => {
    setText(byId("unsent"), count ? say("unsent", { n: count }) : "");
    byId("unsent").hidden = !count;
  };

  return {
    say,
    lock,
    notice,
    present,
    rest,
    progress,
    unsent,
    offers: (choice) => choices.some((button) => button.dataset.choice === choice),
    saved: (visible) => { byId("saved").hidden = !visible; },
    announce,
    allowUndo: (allowed) => { byId("undo").disabled = !allowed; },
    note: () => note?.value.trim() ?? "",
    askWhy: () => reasons.showModal(),
    showHelp: () => help.showModal(),
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
    keySwitch: byId("keys-on"),
    prepare: () => {
      byId("open-help").addEventListener("click", () => help.showModal());
      root.querySelectorAll("dialog").forEach((dialog) => {
        dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
        dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
      });
      // Escape leaves the reason field, so that the keys choose again.
      note?.addEventListener("keydown", ({ key }) => { if (key === "Escape") byId("pair-heading").focus(); });
    },
  };
};
