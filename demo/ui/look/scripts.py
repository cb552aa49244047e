"""JavaScript that the page's events run in the browser."""

from __future__ import annotations

FOCUS_STAGE = """() => {
  const stage = document.getElementById('stage');
  stage.tabIndex = -1;
  stage.focus({preventScroll: true});
}"""
"""Focuses the result pane: a button that becomes disabled loses the focus. Shift+Tab goes back to the other button."""

TO_STAGE = """() => {
  const behavior = window.matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth';
  if (window.innerWidth > 800) window.scrollTo({top: 0, behavior});
  else document.getElementById('stage').scrollIntoView({behavior});
}"""
"""Scrolls to the result pane, which stands below the form on a narrow window and beside it on a wide one."""

TO_ANSWER = """() => setTimeout(() => {
  const shown = document.querySelector('#live .live, #top .headline, #top .problem');
  if (shown && window.innerWidth <= 800) document.getElementById('stage').scrollIntoView();
}, 100)"""
"""For a page that opens with a run: on a narrow window the form stands above it."""

REDRAW = "() => { setTimeout(() => window.dispatchEvent(new Event('resize')), 50); }"
"""Makes Plotly redraw: inside a folded section it cannot know the width of a figure."""
