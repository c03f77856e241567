// Buttons that copy the text of another element: <button data-copy="id" data-copied="Copied" hidden>.
(() => {
  "use strict";

  const copy = async (source) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(source.textContent.trim().replace(/\s+/g, " "));
    // Browsers offer the clipboard API only over HTTPS.
    window.getSelection().selectAllChildren(source);
    document.execCommand("copy");
  };

  const showButtons = () => document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await copy(document.getElementById(button.dataset.copy));
      button.textContent = button.dataset.copied;
    } catch { /* the browser refused; the text can be selected */ }
  });
  document.addEventListener("live:replaced", showButtons);
  showButtons();
})();
