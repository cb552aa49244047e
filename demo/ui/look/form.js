// The keys of the form. Ctrl+Enter (Cmd+Enter) presses Run from anywhere in the form, and while nothing has the focus.
// Dropdowns do not get the Tab key: gradio would handle the key after the dropdown has lost the focus and closed, and
// would open the dropdown again.
(() => {
  const HANDED_OVER = 100;  // milliseconds after which gradio has read a field that lost the focus

  window.addEventListener('keydown', event => {
    const within = selector => event.target.closest?.(selector);
    if (event.key === 'Tab' && within('[role=combobox]')) event.stopImmediatePropagation();
    if (event.key !== 'Enter' || event.repeat || event.shiftKey || event.altKey || !(event.ctrlKey || event.metaKey)) return;
    if (!within('#form') && event.target !== document.body) return;
    if (!document.getElementById('run')?.checkVisibility()) return;  // another tab is open
    event.preventDefault();
    event.stopImmediatePropagation();
    document.activeElement.blur();
    setTimeout(() => document.getElementById('run')?.click(), HANDED_OVER);
  }, true);
})();
