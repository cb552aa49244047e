// What the page's events run in the browser. `__init__.py` names these functions for gradio.
(() => {
  const part = id => document.getElementById(id);
  const isWide = () => window.innerWidth > 800;  // on a narrow window the result pane stands below the form
  const behavior = () => (matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth');

  window.pageEvents = {
    // A button that becomes disabled loses the focus. From the result pane Shift+Tab goes back to the other button.
    focusStage() {
      const stage = part('stage');
      stage.tabIndex = -1;
      stage.focus({ preventScroll: true });
    },

    toStage() {
      if (isWide()) window.scrollTo({ top: 0, behavior: behavior() });
      else part('stage').scrollIntoView({ behavior: behavior() });
    },

    toSweep() {
      if (isWide()) window.scrollTo(0, 0);
      else part('sweep-stage').scrollIntoView();
    },

    // For a page that opens with a run.
    toAnswer() {
      setTimeout(() => {
        const shown = document.querySelector('#live .live, #best-head h2, #top .headline, #top .problem');
        if (shown && !isWide()) part('stage').scrollIntoView();
      }, 100);
    },

    // When the fold opens: it is at the lower end of the form, below the edge of a low window.
    toAdvanced() {
      setTimeout(() => part('advanced').scrollIntoView({ block: 'start', behavior: behavior() }), 100);
    },

    // A press on a row of another tab has opened a run in the first one, or has done something else ('').
    async toOpenRun(id) {
      if (!id) return;
      await address.openRun(id);
      this.toStage();
      this.focusStage();
    },

    // Makes Plotly redraw: inside a folded section it cannot know the width of a figure.
    redraw() {
      setTimeout(() => window.dispatchEvent(new Event('resize')), 50);
    },

    // The thumbnails of `gr.Examples` have no accessible name.
    nameThumbnails(names) {
      document.querySelectorAll('#examples button.gallery-item').forEach((button, place) => {
        button.setAttribute('aria-label', `Example: ${names[place]}`);
      });
    },

    // Clicks a hidden DownloadButton once gradio has given it its new file.
    download(id) {
      setTimeout(() => document.querySelector(`#${id} a, a#${id}, #${id}`).click(), 150);
    },
  };
})();
