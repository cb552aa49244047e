// The functions that the page's events run in the browser. `__init__.py` holds the calls of these functions for gradio.
(() => {
  const part = id => document.getElementById(id);
  const isWide = () => window.innerWidth > 800;  // on a narrow window the result pane stands below the form
  const behavior = () => (matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth');

  // A hidden tab may have stopped following its run, because newer tabs do: it goes on when it is seen again.
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && document.querySelector('[data-let-go]')) location.search = 'again=1';
  });

  window.pageEvents = {
    // Moves the focus to the result pane: the pressed button is disabled now. Shift+Tab goes back to an enabled button.
    focusStage() {
      const stage = part('stage');
      stage.tabIndex = -1;
      stage.focus({ preventScroll: true });
    },

    toStage(id = 'stage') {
      if (isWide()) window.scrollTo({ top: 0, behavior: behavior() });
      else part(id).scrollIntoView({ behavior: behavior() });
    },

    // Scrolls to the run or verdict that a page shows as it opens, if the window is narrow.
    toAnswer() {
      setTimeout(() => {
        const shown = document.querySelector('#live .live, #best-head h2, #top .headline, #top .problem');
        if (shown && !isWide()) part('stage').scrollIntoView();
      }, 100);
    },

    // Scrolls to the fold "Advanced" as it opens: the fold is at the end of the form, below the edge of a low window.
    toAdvanced() {
      setTimeout(() => part('advanced').scrollIntoView({ block: 'start', behavior: behavior() }), 100);
    },

    // Shows the run that a press on a row of another tab has opened; does nothing for '', if the press opened no run.
    async toOpenRun(id) {
      if (!id) return;
      await address.openRun(id);
      this.toStage();
      this.focusStage();
    },

    // Makes Plotly redraw its charts after a fold has opened: inside a closed fold a chart's width is unknown.
    redraw() {
      setTimeout(() => window.dispatchEvent(new Event('resize')), 50);
    },

    // Clicks a hidden DownloadButton once gradio has given it its new file.
    download(id) {
      setTimeout(() => document.querySelector(`#${id} a, a#${id}, #${id}`).click(), 150);
    },
  };
})();
