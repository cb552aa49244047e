// Gives each Plotly chart a name for screen readers, from its layout's meta data, and each thumbnail of `gr.Examples`
// the name of its file. Keeps a browser that translates the page from charts and from figures that go on changing. All
// come and go, so the script searches the document after each change, at most four times a second.
(() => {
  const look = () => {
    for (const plot of document.querySelectorAll('.js-plotly-plot')) {
      const words = plot.layout?.meta?.aloud;
      if (!words || plot.getAttribute('aria-label') === words) continue;
      plot.setAttribute('role', 'img');
      plot.setAttribute('aria-label', words);
    }
    for (const figure of document.querySelectorAll('.clock, .racing, .figure.number, .js-plotly-plot')) figure.translate = false;
    for (const picture of document.querySelectorAll('#examples button:not([aria-label]) img')) {
      const name = picture.src.split('/').pop().replace(/\.\w+$/, '');
      picture.closest('button').setAttribute('aria-label', `Example: ${name}`);
    }
  };
  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; look(); }, 250);
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
