// Gives each Plotly chart a name for screen readers, from its layout's meta data. Charts come and go, so the script
// searches the document after each change, at most four times a second.
(() => {
  const look = () => {
    for (const plot of document.querySelectorAll('.js-plotly-plot')) {
      const words = plot.layout?.meta?.aloud;
      if (!words || plot.getAttribute('aria-label') === words) continue;
      plot.setAttribute('role', 'img');
      plot.setAttribute('aria-label', words);
    }
  };
  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; look(); }, 250);
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
