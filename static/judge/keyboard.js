// Keys become commands. Nothing happens while the worker types, holds a key down, or has a dialog open.

const KEYS = { 1: "first", 2: "second", 0: "tie", s: "skip", z: "undo", "?": "help" };
const PLACES = { Digit1: "first", Digit2: "second", Digit0: "tie", KeyS: "skip", KeyZ: "undo" };

const rightToLeft = (root) => getComputedStyle(root).direction === "rtl";

// Left and right are what the eye sees: where the page runs from right to left, the first text lies on the right.
const sideways = (key, root) => ((key === "ArrowLeft") === !rightToLeft(root) ? "first" : "second");

// Down scrolls a page that does not fit; only where there is nothing to scroll can it mean "equally good".
const fits = () => document.documentElement.scrollHeight <= window.innerHeight + 1;

const commandOf = ({ key, code }, root) => {
  if (key === "ArrowLeft" || key === "ArrowRight") return sideways(key, root);
  if (key === "ArrowDown") return fits() ? "tie" : undefined;
  const command = KEYS[key.toLowerCase()];
  if (command) return command;
  // Other scripts and the digits of a French keyboard are known by their place; Latin letters only by their name.
  const foreign = key.length === 1 && key.charCodeAt(0) > 127;
  return foreign || code?.startsWith("Digit") ? PLACES[code] : undefined;
};

const isTyping = (target) => target instanceof Element && target.closest("input, textarea, select, [contenteditable]");

export const listen = (root, { isOn, run }) => {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (!isOn() || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const command = commandOf(event, root);
    if (!command) return;
    event.preventDefault();
    run(command);
  });
};
