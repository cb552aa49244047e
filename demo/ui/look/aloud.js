// What gradio and Plotly draw without a word for those who do not see it. Nodes come and go while the page lives, so
// each change of the document is followed by one look, at most four a second.
(() => {
  const name = (part, words) => { if (words && part.getAttribute('aria-label') !== words) part.setAttribute('aria-label', words); };
  const look = () => {
    for (const plot of document.querySelectorAll('.js-plotly-plot')) {
      const words = plot.layout?.meta?.aloud;
      if (!words) continue;
      plot.setAttribute('role', 'img');
      name(plot, words);
    }
  };
  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; look(); }, 250);
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
