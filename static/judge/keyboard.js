// Keyboard shortcuts. Ignored while the worker types, holds a key down, or has a dialog open.

const KEYS = { 1: "first", 2: "second", 0: "tie", s: "skip", z: "undo", "?": "help" };
const CODES = { Digit1: "first", Digit2: "second", Digit0: "tie", KeyS: "skip", KeyZ: "undo" };

const isRightToLeft = (root) => getComputedStyle(root).direction === "rtl";

// Arrows follow what is visible: on a right-to-left page the first text is on the right.
const arrowCommand = (key, root) => ((key === "ArrowLeft") === !isRightToLeft(root) ? "first" : "second");

const commandFor = ({ key, code }, root) => {
  if (key === "ArrowLeft" || key === "ArrowRight") return arrowCommand(key, root);
  const command = KEYS[key.toLowerCase()];
  if (command) return command;
  // For other scripts and the digits of a French keyboard the physical key counts; for Latin letters the character.
  const isOtherScript = key.length === 1 && key.charCodeAt(0) > 127;
  return isOtherScript || code?.startsWith("Digit") ? CODES[code] : undefined;
};

const isTyping = (target) => target instanceof Element && target.closest("input, textarea, select, [contenteditable]");

export const listenForKeys = (root, { isEnabled, run }) => {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (!isEnabled() || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const command = commandFor(event, root);
    if (!command) return;
    event.preventDefault();
    run(command);
  });
};
